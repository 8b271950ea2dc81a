"""The browser that tests of the live page share."""

from chromium import browsing

__all__ = ["browsing"]
