"""The linear rankings of "auto" on remote rows, by rounds of reductions."""

from taufpl.estimators.rankings.remote._candidates import find_block_candidates
from taufpl.estimators.rankings.remote._losses import BlockLoss as BlockLoss, MarginLoss as MarginLoss, Spread as Spread

__all__ = ["find_block_candidates"]
