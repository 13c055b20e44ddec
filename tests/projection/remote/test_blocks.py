"""The projection by rounds, judged by exact arithmetic and by the compiled projection."""

import pickle
from functools import partial

import numpy as np
import pytest

from block_cases import AWKWARD, projected, projection_task, sizes, strict_array, torch_tensor, vectors_in_blocks
from projection_cases import draw
from reference import exact_simplex
from taufpl.operators.remote import LocalBlocks, as_block
from taufpl.projection import Thresholds, project_topk_simplex
from taufpl.projection.remote import Samples, Source, project_by_rounds, top_mean_by_rounds


def tally(block, selected, edges):
    return block.settle(selected.tally(edges))[0]


def fetch(block, selected, *asked):
    return block.settle(*block.settle(selected.fetch(*asked)))[0]


LIBRARIES = [pytest.param(np.asarray, id="numpy"), strict_array, torch_tensor]


def errors(found, expected, alpha, beta, weight):
    """Largest errors of both, relative to the size of the entries that decide them."""
    triples = zip(found, expected, sizes(alpha, beta, weight), strict=True)
    return [np.abs(x - y).max() / max(s, 1e-300) for x, y, s in triples]


@pytest.mark.parametrize("most", [4096, 6, 1])
@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_families_against_exact_arithmetic(name, most):
    rng = np.random.default_rng(most)
    for i, (alpha, beta, k, weight) in enumerate(draw(name, 25)):
        blocks, moves = vectors_in_blocks(alpha, beta, 1 + i % 7, rng)
        projection = project_by_rounds(blocks, projection_task(alpha, beta, k, weight), most=most)
        exact = exact_simplex(alpha, beta, k, weight)
        expected = [np.array([float(x) for x in part]) for part in (exact.alpha, exact.beta)]
        found = projected(projection, alpha, beta, weight)
        assert max(errors(found, expected, alpha, beta, weight)) < 1e-10, (i, alpha, beta, k, weight)
        rounding = 1e-13 * max(np.abs(alpha).max() * weight, np.abs(beta).max()) * (1 + 1 / weight)
        for product, pair, move in zip(projection.moved, expected, moves, strict=True):
            assert product == pytest.approx(pair @ move, rel=1e-8, abs=rounding)
        assert blocks.n_rounds <= 12


def large_case(kind, n, m, rng):
    alpha, beta = 1 - 0.5 * rng.normal(size=m), 3 * rng.normal(size=n)
    if kind == "tenths":
        alpha, beta = alpha.round(1), beta.round(1)
    elif kind == "integers":
        alpha, beta = alpha.round(), beta.round()
    elif kind == "equal":
        alpha[:], beta[:] = 2.0, 0.02
    return alpha, beta


@pytest.mark.parametrize("convert", LIBRARIES)
@pytest.mark.parametrize(("n", "m", "k"), [(60_000, 3_000, 600), (20_000, 20_000, 1), (20_000, 500, 20_000)])
@pytest.mark.parametrize("kind", ["normal", "tenths", "integers", "equal"])
def test_large_vectors_take_few_rounds(kind, n, m, k, convert):
    rng = np.random.default_rng(0)
    alpha, beta = large_case(kind, n, m, rng)
    task = projection_task(alpha, beta, k, 2.0)
    expected = project_topk_simplex(alpha, beta, k, weight=2.0)
    blocks, moves = vectors_in_blocks(alpha, beta, 3, rng, convert)
    first = project_by_rounds(blocks, task)
    assert blocks.n_rounds <= 5
    assert max(errors(projected(first, alpha, beta, 2.0), expected, alpha, beta, 2.0)) < 1e-11
    assert np.allclose(first.moved, [pair @ move for pair, move in zip(expected, moves, strict=True)], rtol=1e-8)

    answer = first.thresholds
    for off, widths, most_rounds in ((1e-3, (2e-3,) * 3, 3), (0.5, (1e-2,) * 3, 6)):
        guess = Thresholds(answer.lam + off, answer.mu - off, answer.cap * (1 + off), answer.total, widths)
        before = blocks.n_rounds
        again = project_by_rounds(blocks, task, guess)
        assert blocks.n_rounds - before <= most_rounds
        assert max(errors(projected(again, alpha, beta, 2.0), expected, alpha, beta, 2.0)) < 1e-11


def test_zero_answer_with_thousands_of_ties():
    alpha, beta = np.full(9_000, -1.0), np.full(20_000, 0.5)
    blocks, _ = vectors_in_blocks(alpha, beta, 4, np.random.default_rng(0))
    projection = project_by_rounds(blocks, projection_task(alpha, beta, 100, 1.0))
    assert projection.thresholds.total == 0
    assert projection.moved == (0.0, 0.0)


@pytest.mark.parametrize("convert", LIBRARIES)
def test_tally_and_fetch_by_hand(convert):
    block = as_block(convert(np.empty((0, 1))))
    values = np.array([1.0, 1.0, 0.5, 3.0, 2.0, -1.0])
    moves = convert(np.arange(6.0))
    selected = block.select(0.0, 0.0, ((1.0, convert(values)),))
    expected = [[5, 4, 2, 1, 0], [5, 4, 4, 2, 1], [7.5, 4.6, 3.0, 1.0, 0.0]]
    assert np.allclose(tally(block, selected, np.array([0.0, 0.6, 1.0, 2.0, 3.0])), expected)
    sums, inside = fetch(block, selected, np.array([[0.4, 1.0], [1.0, 2.5]]), moves, 10)
    assert np.allclose(sums, [[4, 3.0, 8.0, 10.0], [1, 0.5, 3.0, 1.5]])
    assert np.allclose(inside[0], [[0.5], [2.0]])
    assert np.allclose(inside[1], [[2.0], [4.0]])
    _, quantiles = fetch(block, selected, np.array([[0.4, 3.5]]), None, 4)
    assert np.ndim(quantiles[0]) == 1
    assert {quantiles[0][0], quantiles[0][-1]} == {0.5, 3.0}


@pytest.mark.parametrize("convert", LIBRARIES)
def test_ties_at_zero_count_as_at_the_edge(convert):
    block = as_block(convert(np.empty((0, 1))))
    values = np.array([0.0, -0.0, 0.0, 5e-324, -5e-324, 1.0])
    selected = block.select(-1.0, 0.0, ((1.0, convert(values)),))
    assert tally(block, selected, np.array([-0.0]))[:2].tolist() == [[2], [5]]
    sums, inside = fetch(block, selected, np.array([[-1.0, 0.0], [0.0, 1.0]]), None, 10)
    assert sums[:, 0].tolist() == [5, 1]
    assert [part[0].tolist() for part in inside] == [[-5e-324], [5e-324]]


@pytest.mark.parametrize("is_looked_up", [False, True])
@pytest.mark.parametrize("convert", LIBRARIES)
def test_entries_by_their_excess(convert, is_looked_up):
    block = as_block(convert(np.empty((0, 1))))
    values = np.array([0.1, 0.7, 0.3, 2.0, -1.0, 0.3 + 0.4, 0.3])
    selected = block.select(-10.0, 0.25, ((1.0, convert(values)),))
    if is_looked_up:
        tally(block, selected, np.zeros(1))
    shifted = values + 0.25
    for low, cap in ((0.55, 0.4), (0.35, np.inf), (-np.inf, 1.0), (np.inf, 1.0), (-2.0, 1e-9), (9.0, 1.0)):
        rows, excess, capped = block.settle(selected.split(low, cap))[0]
        over = shifted - low
        expected = {(i, over[i]) for i in range(len(values)) if 0 < over[i] < cap}
        rows, excess, capped = block.to_host(rows, excess, capped)
        assert set(zip(np.asarray(rows).tolist(), np.asarray(excess).tolist(), strict=True)) == expected
        assert set(np.asarray(capped).tolist()) == set(np.flatnonzero((over > 0) & (over >= cap)).tolist())


@pytest.mark.parametrize("convert", LIBRARIES)
def test_answers_that_travel_together(convert):
    rng = np.random.default_rng(0)
    X, weights, shift = rng.normal(size=(700, 3)), rng.normal(size=400), np.array([1.0, -1.0, 0.5])
    rows = rng.permutation(700)[:400]
    block = as_block(convert(X))
    block.rows._chunk_rows = lambda: 64  # several parts, the last one shorter
    selected = block.select(0.0, 0.0, ((2.0, convert(X[:, 0])), (0.0, convert(X[:, 1])), (1.0, convert(X[:, 2]))))
    edges = np.array([0.1, 0.5])
    tally, dual_direction, (gram, total), none = block.settle(
        selected.tally(edges),
        block.add(convert(weights), convert(rows)),
        block.moments(convert(rows), shift),
        block.add(convert(weights[:0]), convert(rows[:0])),
    )
    above = (2 * X[:, 0] + X[:, 2])[:, None] - edges
    assert np.allclose(tally, [(above > 0).sum(axis=0), (above > 0).sum(axis=0), np.maximum(above, 0).sum(axis=0)])
    assert np.allclose(dual_direction, weights @ X[rows])
    assert np.allclose(gram, (X[rows] - shift).T @ (X[rows] - shift))
    assert np.allclose(total, (X[rows] - shift).sum(axis=0))
    assert not none.any()


def test_chords_and_tangents_enclose_the_excess():
    rng = np.random.default_rng(0)
    values = np.concatenate((rng.normal(size=300), np.full(50, 0.25)))
    edges = np.unique(rng.normal(size=9))
    block = as_block(np.empty((0, 1)))
    samples = Samples(edges, *tally(block, block.select(-np.inf, 0.0, ((1.0, values),)), edges))
    at = np.linspace(-4, 4, 1001)
    excess = np.maximum(values - at[:, None], 0).sum(axis=1)
    assert np.all(samples.chords(len(values))(at) >= excess - 1e-9)
    assert np.all(samples.tangents()(at) <= excess + 1e-9)


@pytest.mark.parametrize("k", [1, 7, 500, 3_000])
@pytest.mark.parametrize("guess", [0.0, 100.0, -7.0])
@pytest.mark.parametrize("decimals", [0, 12])
def test_mean_of_the_largest(k, guess, decimals):
    rng = np.random.default_rng(k)
    scores = rng.normal(size=3_000).round(decimals)
    states = [{"scores": part} for part in np.split(scores, [10, 10, 1_500])]
    blocks = LocalBlocks([np.empty((0, 1))] * 4, states)
    found = top_mean_by_rounds(blocks, Source(0.0, ((1.0, "scores"),)), k, 3_000, guess, 0.1, 1e-12)
    exact = np.sort(scores)[-k:].mean()
    assert found.lower - 1e-12 <= exact <= found.upper + 1e-14
    assert found.upper == pytest.approx(exact, abs=1e-11)
    assert blocks.n_rounds <= 12


@pytest.mark.parametrize("count", [1, 3])
def test_tasks_travel(monkeypatch, count):
    rng = np.random.default_rng(0)
    alpha, beta = large_case("normal", 20_000, 3_000, rng)
    blocks, _ = vectors_in_blocks(alpha, beta, count, rng)
    task = projection_task(alpha, beta, 600, 2.0)
    first = project_by_rounds(blocks, task)
    near = project_by_rounds(blocks, task, first.thresholds)
    sent = []

    def send(task, run):
        sent.append(pickle.dumps(task))
        return run(pickle.loads(sent[-1]))

    monkeypatch.setattr(blocks, "reduce", partial(send, run=blocks.reduce))
    monkeypatch.setattr(blocks, "gather", partial(send, run=blocks.gather))
    assert project_by_rounds(blocks, task) == first
    assert project_by_rounds(blocks, task, first.thresholds) == near
    assert len(sent) >= 4
    assert max(map(len, sent)) < 8 * len(beta) / 10


def test_caches_do_not_travel():
    source, state = Source(0.0, ((1.0, "a"),)), {"a": np.arange(3.0)}
    block = as_block(np.ones((3, 1)))
    first = source.above(block, state, 0.0, "x").values
    assert block.scratch
    copy = pickle.loads(pickle.dumps(block))
    assert not copy.scratch
    np.testing.assert_array_equal(source.above(copy, state, 0.0, "x").values, first)


def test_cache_notices_new_vectors_and_lower_floors():
    source = Source(0.0, ((1.0, "a"),))
    block = as_block(np.ones((4, 1)))
    state = {"a": np.arange(4.0)}
    assert len(source.above(block, state, 1.0, "x").values) == 3
    assert len(source.above(block, state, 2.0, "x").values) == 3  # still those of the lower floor
    assert len(source.above(block, state, 0.0, "x").values) == 4
    assert len(source.above(block, {"a": np.arange(4.0) - 9}, 0.0, "x").values) == 0
