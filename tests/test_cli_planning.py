"""Budgets, plans and precision on the command line."""

import pytest

from cli_cases import command, contents, frame, succeed, write
from taufpl.planning import precision_lower_bound


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planning")
    write(frame(0, n=2000, m=300), folder / "good.csv")
    write(frame(1, n=3000, m=300), folder / "new.csv")
    write(frame(2, n=100, m=1).query("y == 0"), folder / "negatives.csv")
    succeed("fit", folder / "good.csv", "--target", "y", "--tau", 0.05, "--model", "logistic", "--threshold", "np",
            "-o", folder / "good.skops")  # fmt: skip
    return folder


def test_evaluate_bounds_precision_over_a_range(place):
    line = ["evaluate", place / "good.skops", place / "new.csv"]
    found = succeed(*line, "--base-rate", "0.001:0.01", "--json").document
    counts = (found[name] for name in ("n_false_positive", "n_negative", "n_true_positive", "n_positive"))
    assert found["base_rate"] == [0.001, 0.01]
    assert found["precision_lower_bound"] == precision_lower_bound(*counts, 0.001, found["delta"])
    assert found["precision_lower_bound"] < found["precision_at_base_rate"][0] < found["precision_at_base_rate"][1]
    text = succeed(*line, "--base-rate", "0.01").out
    assert "precision, base rate 1.00%" in text
    assert "at least" in text


BAD = [
    ("evaluate good.skops new.csv --base-rate 0.1:0.01", 2, "LOW:HIGH with the lower share first"),
    ("evaluate good.skops new.csv --base-rate 0.1:0.2:0.3", 2, "LOW:HIGH"),
    ("evaluate good.skops new.csv --base-rate 1%", 2, "1 % is 0.01"),
    ("evaluate good.skops negatives.csv --base-rate 0.01", 1, "no positives to measure the recall on"),
]


@pytest.mark.parametrize(("line", "code", "words"), BAD, ids=[line for line, _, _ in BAD])
def test_bad_uses_end_with_a_sentence(place, monkeypatch, line, code, words):
    monkeypatch.chdir(place)
    before = contents(place)
    done = command(*line.split())
    assert (done.code, done.out) == (code, ""), done
    said = [text for text in done.err.splitlines() if not text.startswith("taufpl: note: ")]
    assert len(said) == 1
    assert words in said[0]
    assert contents(place) == before
