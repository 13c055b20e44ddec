"""Linear rankings: the trimmed one, that of Gaussian recall, and the candidates among which "auto" chooses."""

from taufpl.estimators.rankings._candidates import AutoFitter
from taufpl.estimators.rankings._trimmed import rank

__all__ = ["AutoFitter", "rank"]
