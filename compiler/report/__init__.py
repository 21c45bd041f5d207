"""A compilation as one page for people: what was sampled, where sequences parted, what was found.

`contents.py` reads a compiled file or logs, `page.py` puts the page together. What can be read without
scripts (numbers, trees, findings) is made here as HTML; the tokens are packed arrays beside it, which the
scripts in `assets/` unpack when a sequence is opened. The page asks the network for nothing.
"""
