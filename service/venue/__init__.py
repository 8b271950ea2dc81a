"""venue: a stock exchange in a box."""

from importlib.metadata import version

__version__: str = version("venue")
