"""Vectors and data in blocks, for the tests of the projection by rounds and of the solver over blocks."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from projection_cases import FAMILIES
from taufpl.operators.remote import LocalBlocks, as_block
from taufpl.problem.remote import BlockRankingProblem
from taufpl.projection.remote import ProjectionTask, Source

# Infinite entries do not occur among scores, and subnormal ones are lost beside the rounding of the others.
AWKWARD = sorted(set(FAMILIES) - {"minus_infinity", "subnormal"})


def torch_tensor(x):
    pytest.importorskip("array_api_compat")
    return pytest.importorskip("torch").from_numpy(np.array(x, order="C"))


def cuda_tensor(x):
    if not pytest.importorskip("torch").cuda.is_available():
        pytest.skip("no CUDA device")
    return torch_tensor(x).cuda()


def strict_array(x):
    pytest.importorskip("array_api_compat")
    return pytest.importorskip("array_api_strict").asarray(np.array(x, order="C"))


def cut(length, count, rng):
    """Ends of `count` parts of a vector, some of them empty as a rule."""
    return np.sort(rng.integers(0, length + 1, count - 1))


def vectors_in_blocks(alpha, beta, count, rng, convert=np.asarray):
    """Both vectors cut at places of their own, each with moves."""
    moves = np.cos(np.arange(len(alpha))), np.sin(0.3 + np.arange(len(beta)))
    cuts = cut(len(alpha), count, rng), cut(len(beta), count, rng)
    parts = [np.split(x, c) for x, c in zip((alpha, beta, *moves), cuts * 2, strict=True)]
    states = [
        dict(zip(("alpha", "beta", "alpha_moves", "beta_moves"), map(convert, part), strict=True))
        for part in zip(*parts, strict=True)
    ]
    return LocalBlocks([convert(np.empty((0, 1)))] * count, states), moves


def projection_task(alpha, beta, k, weight):
    sources = (Source(0.0, ((1.0, name),), moves=f"{name}_moves") for name in ("alpha", "beta"))
    return ProjectionTask(*sources, (len(alpha), len(beta)), k, weight)


def projected(projection, alpha, beta, weight):
    """The pair that the thresholds describe."""
    thresholds = projection.thresholds
    if not thresholds.total > 0:
        return np.zeros_like(alpha), np.zeros_like(beta)
    lifted = np.maximum(alpha - thresholds.lam / weight, 0.0)
    return lifted, np.minimum(np.maximum(beta - thresholds.mu, 0.0), thresholds.cap)


def sizes(alpha, beta, weight):
    """Of the entries that decide alpha and beta."""
    return max(np.abs(alpha).max(), np.abs(beta).max() / weight), max(np.abs(beta).max(), weight * np.abs(alpha).max())


def block_problem(X, y, k, reg, ends=(), convert=lambda part: part):
    """The ranking problem on X cut into blocks at `ends`."""
    bounds = [0, *ends, len(y)]
    blocks, states = [], []
    for start, stop in pairwise(bounds):
        block = as_block(convert(X[start:stop]))
        blocks.append(block)
        positive = block.asarray(y[start:stop] > 0)
        states.append({"positive": block.xp.nonzero(positive)[0], "is_negative": ~positive})
    return BlockRankingProblem(LocalBlocks(blocks, states), int((y > 0).sum()), int((y <= 0).sum()), k, reg)


def dual_pair(problem):
    """Alpha and beta in the order of the positives and of the negatives."""

    def take(block, state):
        alpha, beta, mask = block.to_host(state["alpha"], state["beta"], state["is_negative"])
        return alpha, beta[np.asarray(mask, dtype=bool)]

    parts = problem.blocks.gather(take)
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
