"""Projections of vectors that lie in blocks: by rounds of small messages, or on the device that holds them."""

from taufpl.projection.remote._distributed import FirstRound, Projection, ProjectionTask, Source, project_by_rounds
from taufpl.projection.remote._piecewise_linear import AROUND, Samples
from taufpl.projection.remote._top_mean import LookAtTop, TopMean, top_mean_by_rounds

__all__ = [
    "AROUND",
    "FirstRound",
    "LookAtTop",
    "Projection",
    "ProjectionTask",
    "Samples",
    "Source",
    "TopMean",
    "project_by_rounds",
    "top_mean_by_rounds",
]
