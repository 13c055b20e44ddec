"""Euclidean projections on the top-k simplex and its relatives, exact and in linear time."""

from taufpl.projection import agnostic
from taufpl.projection._project import (
    LEAST_WEIGHT as LEAST_WEIGHT,
    MOST_WEIGHT as MOST_WEIGHT,
    Thresholds,
    as_vectors as as_vectors,
    check_k as check_k,
    check_out as check_out,
    detached as detached,
    next_widths as next_widths,
    project_capped_simplex,
    project_topk_cone,
    project_topk_simplex,
    project_topk_simplex_into as project_topk_simplex_into,
)

__all__ = ["Thresholds", "agnostic", "project_capped_simplex", "project_topk_cone", "project_topk_simplex"]
