"""The trace log: what went over the wire, kept so that it can be rebuilt byte for byte.

FORMAT.md beside this file is the specification; `writer` and `reader` mirror each other.
Depends on msgpack and zstandard only, so that a log can be read anywhere.
"""
