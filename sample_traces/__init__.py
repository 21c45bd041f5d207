"""Small trace logs of a real server; README.md tells where each came from."""
