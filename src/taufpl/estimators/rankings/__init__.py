"""Linear rankings: the trimmed one, that of Gaussian recall, and the candidates among which "auto" chooses."""

from taufpl.estimators.rankings._candidates import Name, as_good_as_best, average, find_candidates, held_out_share
from taufpl.estimators.rankings._gaussian_recall import NegativeMoments
from taufpl.estimators.rankings._trimmed import rank

__all__ = ["Name", "NegativeMoments", "as_good_as_best", "average", "find_candidates", "held_out_share", "rank"]
