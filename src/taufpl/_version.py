"""The version, as the installed package says it."""

from importlib.metadata import version

__version__ = version("taufpl")
