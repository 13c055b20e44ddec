"""Binary classification under a hard tolerance on the false-positive rate."""

from importlib.metadata import version as _version

__version__ = _version("taufpl")
