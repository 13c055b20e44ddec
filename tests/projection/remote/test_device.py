"""The projection where all entries lie in one place, judged by exact arithmetic and by the compiled projection."""

from dataclasses import replace

import numpy as np
import pytest

from block_cases import (
    AWKWARD,
    cuda_tensor,
    projected,
    projection_task,
    sizes,
    strict_array,
    torch_tensor,
    vectors_in_blocks,
)
from projection_cases import draw
from reference import exact_simplex
from taufpl.projection import Thresholds, project_topk_simplex
from taufpl.projection.remote import _distributed, project_by_rounds

LIBRARIES = [strict_array, torch_tensor, cuda_tensor]


def in_one_place(alpha, beta, convert):
    blocks, moves = vectors_in_blocks(alpha, beta, 1, np.random.default_rng(0), convert)
    assert blocks.in_one_place
    return blocks, moves


def guesses(answer, weight, size):
    """The answer itself, and others near it and far from it, with widths that are fair, too small and too large."""
    far = 0.3 * size[1]
    for off, width in ((0.0, 1e-6), (1e-3, 4e-3), (0.3, 1.0), (-0.3, 1e-3), (-0.2, 100.0)):
        cap = max(answer.cap + 0.5 * off * far, 1e-3 * size[1])
        widths = (width * size[0], width * size[1], width * size[1])
        mu = answer.mu if np.isfinite(answer.mu) else 0.0
        yield Thresholds(answer.lam + off * weight * size[0], mu - off * far, cap, cap, widths)


@pytest.mark.parametrize("convert", LIBRARIES)
@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_families_against_exact_arithmetic(name, convert):
    for alpha, beta, k, weight in draw(name, 12):
        blocks, moves = in_one_place(alpha, beta, convert)
        task = projection_task(alpha, beta, k, weight)
        exact = exact_simplex(alpha, beta, k, weight)
        expected = [np.array([float(x) for x in part]) for part in (exact.alpha, exact.beta)]
        size = sizes(alpha, beta, weight)
        rounding = 1e-13 * size[1] * (1 + 1 / weight)
        for guess in guesses(project_by_rounds(blocks, task).thresholds, weight, size):
            projection = project_by_rounds(blocks, task, guess)
            for found, pair, scale in zip(projected(projection, alpha, beta, weight), expected, size, strict=True):
                assert np.abs(found - pair).max() <= 1e-10 * max(scale, 1e-300), (alpha, beta, k, weight, guess)
            for product, pair, move in zip(projection.moved, expected, moves, strict=True):
                assert product == pytest.approx(pair @ move, rel=1e-8, abs=rounding)


@pytest.fixture
def few_at_a_time(monkeypatch):
    """Constants under which small vectors take as many looks as very long ones."""
    for name, value in (("_SAMPLE", 8), ("_CLOSER_SAMPLE", 4), ("_MANY", 16), ("_MOST_LOOKS", 60)):
        monkeypatch.setattr(_distributed, name, value)


def tied_case(rng):
    """A few levels, k often just as many as lie on the first of them."""
    sizes = rng.integers(1, 120, rng.integers(2, 7))
    beta = np.repeat(np.sort(rng.normal(size=len(sizes)).round(1))[::-1], sizes)
    alpha = rng.normal(size=rng.integers(1, 200)).round(rng.integers(0, 3)) + rng.choice([0.0, 1.0, 4.0])
    k = int(np.cumsum(sizes)[rng.integers(len(sizes))]) if rng.random() < 0.6 else int(rng.integers(1, len(beta)))
    return alpha, rng.permutation(beta), min(k, len(beta)), float(rng.choice([0.1, 1.0, 3.0]))


def smooth_case(rng):
    alpha, beta = rng.normal(size=rng.integers(1, 400)) + 1.0, rng.standard_t(2, size=rng.integers(2, 800))
    return alpha, beta, int(rng.integers(1, len(beta))), float(10 ** rng.uniform(-2, 2))


@pytest.mark.parametrize("draw_case", [tied_case, smooth_case])
def test_many_looks_against_the_compiled_projection(draw_case, few_at_a_time):
    rng = np.random.default_rng(0)
    n_in_place = 0
    for _ in range(150):
        alpha, beta, k, weight = draw_case(rng)
        blocks, moves = in_one_place(alpha, beta, torch_tensor)
        task, expected = projection_task(alpha, beta, k, weight), project_topk_simplex(alpha, beta, k, weight=weight)
        size = sizes(alpha, beta, weight)
        for guess in guesses(project_by_rounds(blocks, task).thresholds, weight, size):
            blocks, moves = in_one_place(alpha, beta, torch_tensor)
            found = project_by_rounds(blocks, task, guess)
            n_in_place += blocks.n_rounds == 1
            for ours, theirs, scale in zip(projected(found, alpha, beta, weight), expected, size, strict=True):
                assert np.abs(ours - theirs).max() <= 1e-9 * scale, (alpha, beta, k, weight, guess)
            for product, pair, move in zip(found.moved, expected, moves, strict=True):
                assert product == pytest.approx(pair @ move, rel=1e-7, abs=1e-9 * size[1] * (1 + 1 / weight))
    assert n_in_place > 100


@pytest.mark.parametrize(
    ("levels", "k", "alpha"),
    [
        pytest.param(((0.7, 2620), (0.1, 1000), (-1.0, 500)), 2620, [1.0, 0.5], id="k on one level"),
        pytest.param(((1.0, 131), (0.0, 10_000), (-1.0, 500)), 131, [1.0, 0.5, 40.0], id="k above a level"),
    ],
)
@pytest.mark.parametrize("convert", LIBRARIES)
def test_k_at_the_end_of_a_level(levels, k, alpha, convert):
    alpha, beta = np.array(alpha), np.repeat(*map(list, zip(*levels, strict=True)))
    blocks, moves = in_one_place(alpha, beta, convert)
    task, expected = projection_task(alpha, beta, k, 1.0), project_topk_simplex(alpha, beta, k)
    for guess in guesses(project_by_rounds(blocks, task).thresholds, 1.0, (1.0, 1.0)):
        found = project_by_rounds(blocks, task, guess)
        for ours, theirs in zip(projected(found, alpha, beta, 1.0), expected, strict=True):
            assert np.abs(ours - theirs).max() < 1e-10
        assert np.allclose(found.moved, [pair @ move for pair, move in zip(expected, moves, strict=True)], atol=1e-8)


def test_thresholds_among_a_few_of_a_million():
    rng = np.random.default_rng(0)
    alpha = np.append(rng.normal(size=1_152_000), rng.uniform(-100.0, -50.0, 20))
    beta = np.append(np.linspace(60.0, 62.0, 1_000), rng.normal(size=1_000))
    blocks, moves = in_one_place(alpha, beta, torch_tensor)
    task, expected = projection_task(alpha, beta, 10, 1.0), project_topk_simplex(alpha, beta, 10)
    answer = project_by_rounds(blocks, task).thresholds
    found = project_by_rounds(blocks, task, replace(answer, widths=(1.0, 80.0, 1.0)))
    for ours, theirs in zip(projected(found, alpha, beta, 1.0), expected, strict=True):
        assert np.abs(ours - theirs).max() < 1e-6
    assert np.allclose(found.moved, [pair @ move for pair, move in zip(expected, moves, strict=True)], rtol=1e-6)


def large_case(kind, rng):
    alpha, beta = 1 - 0.5 * rng.normal(size=3_000), 3 * rng.normal(size=60_000)
    return (alpha, beta) if kind == "normal" else (alpha.round(2), beta.round(2))


@pytest.mark.parametrize("convert", LIBRARIES)
@pytest.mark.parametrize("kind", ["normal", "ties"])
@pytest.mark.parametrize("k", [1, 30, 3_000, 40_000])
def test_a_guess_makes_it_one_round(k, kind, convert):
    alpha, beta = large_case(kind, np.random.default_rng(k))
    blocks, moves = in_one_place(alpha, beta, convert)
    task = projection_task(alpha, beta, k, 2.0)
    expected = project_topk_simplex(alpha, beta, k, weight=2.0)
    answer = project_by_rounds(blocks, task).thresholds
    guess = Thresholds(answer.lam + 1e-3, answer.mu - 1e-3, 1.01 * answer.cap, answer.total, (0.01, 0.01, 0.01))
    before = blocks.n_rounds
    found = project_by_rounds(blocks, task, guess)
    assert blocks.n_rounds == before + 1
    for ours, theirs in zip(projected(found, alpha, beta, 2.0), expected, strict=True):
        assert np.abs(ours - theirs).max() < 1e-11
    assert np.allclose(found.moved, [pair @ move for pair, move in zip(expected, moves, strict=True)], rtol=1e-8)
    still = replace(task, alpha=replace(task.alpha, moves=None), beta=replace(task.beta, moves=None))
    again = project_by_rounds(blocks, still, guess)
    # Sums on a device may differ from one time to the next, by rounding.
    assert (again.thresholds.lam, again.thresholds.mu) == pytest.approx(
        (found.thresholds.lam, found.thresholds.mu), abs=1e-11
    )
    assert again.moved == (0.0, 0.0)


@pytest.mark.parametrize("convert", LIBRARIES)
def test_entries_far_below_a_guess_are_looked_at_where_they_decide(convert):
    """Entries that lie a width below the guess, or more, are left out at first; then 16 times as many widths."""
    alpha, beta = large_case("normal", np.random.default_rng(0))
    task = projection_task(alpha, beta, 300, 2.0)
    answer = project_by_rounds(in_one_place(alpha, beta, convert)[0], task).thresholds
    highest = np.max(beta) - answer.mu
    for off, width, n_rounds in ((0.0, 0.01, 1), (0.1, 0.01, 2), (0.1, 1e-3, None), (highest, 1e-5, None)):
        blocks, _ = in_one_place(alpha, beta, convert)  # what was selected above a lower floor would be enough
        guess = Thresholds(answer.lam, answer.mu + off, answer.cap, answer.total, (width, width, width))
        found = project_by_rounds(blocks, task, guess)
        assert found.thresholds.mu == pytest.approx(answer.mu, abs=1e-11)
        assert found.thresholds.lam == pytest.approx(answer.lam, abs=2e-11)
        if n_rounds is None:
            assert blocks.n_rounds > 2
        else:
            assert blocks.n_rounds == n_rounds
            assert found.floor == pytest.approx(-width * 16 ** (n_rounds - 1))
            assert found.n_held == np.sum(beta - guess.mu >= found.floor)


@pytest.mark.parametrize(
    ("alpha", "beta", "k"),
    [
        pytest.param(np.full(90, -1.0), np.full(200, 0.5), 10, id="the answer is zero"),
        pytest.param(np.linspace(0.0, 0.1, 50), np.append(np.zeros(100), [9.0, 9.0, 9.0]), 3, id="three share it"),
        pytest.param(np.linspace(0.0, 1.0, 50), np.linspace(-1.0, 1.0, 40), 40, id="all share it"),
    ],
)
def test_special_answers_are_left_to_the_rounds(alpha, beta, k):
    blocks, _ = in_one_place(alpha, beta, torch_tensor)
    task = projection_task(alpha, beta, k, 1.0)
    expected = project_topk_simplex(alpha, beta, k)
    for guess in guesses(project_by_rounds(blocks, task).thresholds, 1.0, sizes(alpha, beta, 1.0)):
        found = projected(project_by_rounds(blocks, task, guess), alpha, beta, 1.0)
        for ours, theirs in zip(found, expected, strict=True):
            assert np.abs(ours - theirs).max() < 1e-12
