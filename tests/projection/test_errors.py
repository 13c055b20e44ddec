"""Wrong arguments: the message names the parameter, what was expected and what came."""

import re

import numpy as np
import pytest

from taufpl.projection import project_capped_simplex, project_topk_cone, project_topk_simplex

ALPHA, BETA = np.array([1.0, 2.0]), np.array([3.0, 1.0, 2.0])
WRONG = (TypeError, ValueError)


def says(*parts):
    """A pattern that wants every part somewhere in the message, as a word, whatever the order."""
    return "(?is)" + "".join(rf"(?=.*(?<!\w){re.escape(part)}(?!\w))" for part in parts)


def replaced(vector, index, value):
    vector = vector.copy()
    vector[index] = value
    return vector


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_nan_and_plus_infinity(bad, dtype):
    word = "nan" if np.isnan(bad) else "inf"
    alpha, beta = ALPHA.astype(dtype), BETA.astype(dtype)
    with pytest.raises(ValueError, match=says("alpha", word)):
        project_topk_simplex(replaced(alpha, 1, bad), beta, 1)
    with pytest.raises(ValueError, match=says("beta", word)):
        project_topk_simplex(alpha, replaced(beta, 2, bad), 1)
    with pytest.raises(ValueError, match=says("beta", word)):
        project_topk_cone(replaced(beta, 0, bad), 1)
    with pytest.raises(ValueError, match=says("beta", word)):
        project_capped_simplex(replaced(beta, 0, bad), 1.0, 1.0)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("position", [0, 5, 4097, 12_345, 29_999])
def test_one_bad_entry_in_a_long_vector_is_found_wherever_it_is(bad, position):
    rng = np.random.default_rng(0)
    alpha, beta = rng.normal(size=30_000), rng.normal(size=30_000)
    *_, guess = project_topk_simplex(alpha, beta, 100, return_thresholds=True)
    for hint in (None, guess):
        with pytest.raises(ValueError, match=says("alpha")):
            project_topk_simplex(replaced(alpha, position, bad), beta, 100, guess=hint)
        with pytest.raises(ValueError, match=says("beta")):
            project_topk_simplex(alpha, replaced(beta, position, bad), 100, guess=hint)
    with pytest.raises(ValueError, match=says("beta")):
        project_topk_cone(replaced(beta, position, bad), 100)
    with pytest.raises(ValueError, match=says("beta")):
        project_capped_simplex(replaced(beta, position, bad), 10.0, 1.0)


def test_nan_is_found_even_where_the_answer_is_zero():
    with pytest.raises(ValueError, match=says("beta", "nan")):
        project_topk_simplex([-5.0], [-1.0, np.nan, -2.0], 1)
    with pytest.raises(ValueError, match=says("alpha", "nan")):
        project_topk_simplex([-5.0, np.nan], [-1.0, -2.0], 1)
    with pytest.raises(ValueError, match=says("alpha", "nan")):
        project_topk_simplex([-np.inf, np.nan], [-1.0, -np.inf], 2)


def test_out_is_untouched_or_at_least_the_input_is_when_an_error_is_raised():
    beta = replaced(BETA, 1, np.nan)
    before = beta.tobytes()
    with pytest.raises(ValueError, match=says("beta", "nan")):
        project_topk_cone(beta, 1, out=beta)
    assert beta.tobytes() == before


@pytest.mark.parametrize("k", [0, -1, 4, 2**40, 2**70, -(2**70)])
def test_k_out_of_range(k):
    for call in (lambda: project_topk_simplex(ALPHA, BETA, k), lambda: project_topk_cone(BETA, k)):
        with pytest.raises(ValueError, match=says("k", "1", "3", str(k).lstrip("-"))):
            call()


@pytest.mark.parametrize("k", [1.5, np.float64(2.5), "2", None, [1], np.nan])
def test_k_not_an_integer(k):
    got = str(k[0]) if isinstance(k, list) else str(k)
    for call in (lambda: project_topk_simplex(ALPHA, BETA, k), lambda: project_topk_cone(BETA, k)):
        with pytest.raises(WRONG, match=says("k", "integer", got)):
            call()


@pytest.mark.parametrize("weight", [0.0, -1.0, np.inf, -np.inf, np.nan])
def test_weight_out_of_range(weight):
    got = str(abs(weight)).removesuffix(".0")
    with pytest.raises(ValueError, match=says("weight", "positive", got)):
        project_topk_simplex(ALPHA, BETA, 1, weight=weight)


@pytest.mark.parametrize("weight", ["1", None, [1.0, 2.0], 1j])
def test_weight_not_a_number(weight):
    with pytest.raises(WRONG, match=says("weight")):
        project_topk_simplex(ALPHA, BETA, 1, weight=weight)


@pytest.mark.parametrize(
    ("name", "total", "cap"),
    [
        ("total", -1.0, 1.0),
        ("total", np.nan, 1.0),
        ("total", np.inf, 1.0),
        ("total", "1", 1.0),
        ("cap", 1.0, 0.0),
        ("cap", 1.0, -1.0),
        ("cap", 1.0, np.nan),
        ("cap", 1.0, None),
    ],
)
def test_total_and_cap_out_of_range(name, total, cap):
    with pytest.raises(WRONG, match=says(name)):
        project_capped_simplex(BETA, total, cap)


@pytest.mark.parametrize("beta", [BETA, np.array([3.0, -np.inf, 1.0, 2.0])], ids=["plain", "with -inf"])
def test_capped_simplex_with_no_room_for_the_total(beta):
    with pytest.raises(ValueError, match=says("total", "cap", "3.5")):
        project_capped_simplex(beta, 3.5, 1.0)


def test_empty_vectors():
    empty = np.zeros(0)
    with pytest.raises(ValueError, match=says("alpha", "at least one")):
        project_topk_simplex(empty, BETA, 1)
    with pytest.raises(ValueError, match=says("beta", "at least one")):
        project_topk_simplex(ALPHA, empty, 1)
    with pytest.raises(ValueError, match=says("beta", "at least one")):
        project_topk_cone([], 1)
    with pytest.raises(ValueError, match=says("beta", "at least one")):
        project_capped_simplex(empty, 1.0, 1.0)


@pytest.mark.parametrize("shape", [(1, 2), (2, 1), (), (1, 1, 2)])
def test_number_of_dimensions(shape):
    wrong = np.ones(shape)
    got = re.escape(str(shape))
    with pytest.raises(ValueError, match=rf"alpha must be one-dimensional, got .*{got}"):
        project_topk_simplex(wrong, BETA, 1)
    for call in (
        lambda: project_topk_simplex(ALPHA, wrong, 1),
        lambda: project_topk_cone(wrong, 1),
        lambda: project_capped_simplex(wrong, 1.0, 1.0),
    ):
        with pytest.raises(ValueError, match=rf"beta must be one-dimensional, got .*{got}"):
            call()


@pytest.mark.parametrize("wrong", [["a", "b"], [1j, 2.0], [None, 1.0], [object(), 1.0]], ids=range(4))
def test_entries_that_are_not_real_numbers(wrong):
    with pytest.raises(WRONG, match=says("alpha")):
        project_topk_simplex(wrong, BETA, 1)
    with pytest.raises(WRONG, match=says("beta")):
        project_topk_cone(wrong, 1)


@pytest.mark.parametrize(
    ("out", "parts"),
    [
        ((np.zeros(3), np.zeros(3)), ("out", "alpha", "2", "3")),
        ((np.zeros(2), np.zeros(4)), ("out", "beta", "3", "4")),
        ((np.zeros((2, 1)), np.zeros(3)), ("out", "alpha")),
        ((np.zeros(2, np.float32), np.zeros(3)), ("out", "alpha", "float64", "float32")),
        ((np.zeros(2), np.zeros(3, np.int64)), ("out", "beta", "float64", "int64")),
        ((np.zeros(2), [0.0, 0.0, 0.0]), ("out", "beta", "list")),
        ((np.zeros(4)[::2], np.zeros(3)), ("out", "alpha", "contiguous")),
        ((np.zeros(2), np.zeros(3)[::-1]), ("out", "beta", "contiguous")),
        ((np.zeros(2),), ("out", "2", "1")),
        ((np.zeros(2), np.zeros(3), np.zeros(3)), ("out", "2", "3")),
        (np.zeros(2), ("out",)),
        (3, ("out",)),
    ],
    ids=range(12),
)
def test_out_of_the_wrong_kind(out, parts):
    with pytest.raises(WRONG, match=says(*parts)):
        project_topk_simplex(ALPHA, BETA, 1, out=out)


@pytest.mark.parametrize(
    ("out", "parts"),
    [
        (np.zeros(2), ("out", "3", "2")),
        (np.zeros(3, np.float32), ("out", "float64", "float32")),
        ([0.0] * 3, ("out", "list")),
    ],
    ids=range(3),
)
def test_single_out_of_the_wrong_kind(out, parts):
    with pytest.raises(WRONG, match=says(*parts)):
        project_topk_cone(BETA, 1, out=out)
    with pytest.raises(WRONG, match=says(*parts)):
        project_capped_simplex(BETA, 1.0, 1.0, out=out)


def test_read_only_out():
    frozen = np.zeros(3)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match=r"(?is)out.*(read-only|writ)"):
        project_topk_cone(BETA, 1, out=frozen)
    with pytest.raises(ValueError, match=r"(?is)out.*(read-only|writ)"):
        project_topk_simplex(ALPHA, BETA, 1, out=(np.zeros(2), frozen))


def test_one_array_for_both_outs():
    shared = np.zeros(3)
    with pytest.raises(ValueError, match=says("out")):
        project_topk_simplex(BETA, BETA, 1, out=(shared, shared))


@pytest.mark.parametrize("guess", [(0.0, 0.0), 1.0, "previous", {}], ids=str)
def test_guess_of_the_wrong_kind(guess):
    with pytest.raises(WRONG, match=says("guess")):
        project_topk_simplex(ALPHA, BETA, 1, guess=guess)
    with pytest.raises(WRONG, match=says("guess")):
        project_topk_cone(BETA, 1, guess=guess)


def test_options_are_keywords():
    with pytest.raises(TypeError, match="positional"):
        project_topk_simplex(ALPHA, BETA, 1, 1.0)
