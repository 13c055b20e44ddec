"""Other people's methods, for comparison."""

from taufpl.baselines._toppush import TopPush

__all__ = ["TopPush"]
