"""Projections of vectors that lie in blocks: by rounds of small messages, or on the device that holds them."""

from taufpl.projection.remote._distributed import FirstRound, Projection, Task, project_by_rounds
from taufpl.projection.remote._piecewise_linear import Samples
from taufpl.projection.remote._tasks import Source
from taufpl.projection.remote._top_mean import AROUND, TopMean, top_mean_by_rounds

__all__ = [
    "AROUND",
    "FirstRound",
    "Projection",
    "Samples",
    "Source",
    "Task",
    "TopMean",
    "project_by_rounds",
    "top_mean_by_rounds",
]
