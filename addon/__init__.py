"""Online: records what goes over the wire, and interprets no more than it must."""
