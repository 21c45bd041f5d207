"""The compiler: trace logs to training sequences, offline, on a machine that needs no mitmproxy.

    replay -> turns -> forest -> sequences -> export

`pipeline` knows the order of the passes. What a log does not tell is left out, and a finding says so.
"""
