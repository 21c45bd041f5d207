"""Builders and processes that tests of several packages share."""
