"""The linear rankings of "auto" on remote rows, by rounds of reductions."""

from taufpl.estimators.rankings.remote._candidates import find_block_candidates

__all__ = ["find_block_candidates"]
