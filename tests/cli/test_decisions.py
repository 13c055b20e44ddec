"""Files of decisions: every column under its own name, and no cell that a spreadsheet runs."""

import threading
import time

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from cli_cases import command, frame, succeed, write
from taufpl import NeymanPearsonClassifier

HOSTILE = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1"]
HARMLESS = ["case 7", "-5", "+49301234", "-1.5e3", "", "a=b", "'=1", None, ".5"]

# Not every writer of CSV quotes a carriage return.
CASES = (HOSTILE[:-1] * 200)[:650]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("decisions")
    table = frame(0)
    write(table, folder / "train.csv")
    succeed(
        "fit", folder / "train.csv", "--target", "y", "--tau", 0.05, "--model", "logistic", "--threshold", "np",
        "-o", folder / "m.skops",
    )  # fmt: skip
    table["score"] = [f"old {row}" for row in range(len(table))]
    table["decision"] = [f"was {row}" for row in range(len(table))]
    table["row"] = [f"line {row}" for row in range(len(table))]
    table["case"] = CASES
    for kind in ("csv", "parquet"):
        write(table, folder / f"new.{kind}")
    return folder


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("name", ["score", "decision", "row"])
def test_an_id_keeps_clear_of_the_columns_that_are_written(place, tmp_path, name, kind):
    out = tmp_path / f"out.{kind}"
    done = succeed("predict", place / "m.skops", place / f"new.{kind}", "-o", out, "--id", name)
    found = pd.read_csv(out) if kind == "csv" else pd.read_parquet(out)
    given = pd.read_csv(place / "new.csv")
    first = name if name == "row" else f"id_{name}"
    assert list(found) == [first, "score", "decision"]
    assert found[first].tolist() == given[name].tolist()
    assert found["decision"].isin([0, 1]).all()
    assert (found["score"] > 0).tolist() == (found["decision"] == 1).tolist()
    assert ("the id is written as id_" in done.err) == (name != "row")


def test_cells_that_begin_a_formula_are_guarded_unless_told_otherwise(place, tmp_path):
    given = CASES
    line = ("predict", place / "m.skops", place / "new.csv", "--id", "case", "--json", "-o")
    done = succeed(*line, tmp_path / "out.csv")
    assert pd.read_csv(tmp_path / "out.csv")["case"].tolist() == ["'" + each for each in given]
    assert done.document["n_guarded"] == 650
    assert "650 texts begin as a formula does" in done.err
    done = succeed(*line, tmp_path / "out.csv", "--no-guard-formulas")
    assert pd.read_csv(tmp_path / "out.csv")["case"].tolist() == given
    assert "formula" not in done.err
    # Parquet is typed: nothing in it is taken for a formula.
    assert succeed(*line, tmp_path / "out.parquet").document["n_guarded"] == 0
    assert pd.read_parquet(tmp_path / "out.parquet")["case"].tolist() == given


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_jobs_change_no_byte(place, tmp_path, kind):
    line = ("predict", place / "m.skops", place / "new.csv", "--id", "case", "--chunk-rows", 40, "--json")
    outs = [tmp_path / f"{jobs}.{kind}" for jobs in (1, 3)]
    first, second = (succeed(*line, "--jobs", out.stem, "-o", out) for out in outs)
    assert outs[0].read_bytes() == outs[1].read_bytes()
    assert first.err.replace(str(outs[0]), "") == second.err.replace(str(outs[1]), "")
    assert first.document | {"output": ""} == second.document | {"output": ""}


def test_jobs_change_no_figure(place):
    line = ("evaluate", place / "m.skops", place / "new.csv", "--chunk-rows", 40, "--json", "--jobs")
    first, *others = (succeed(*line, jobs) for jobs in (1, 3, -2))
    assert [each.document for each in others] == 2 * [first.document]
    assert [each.err for each in others] == 2 * [first.err]


def test_results_come_in_the_order_of_the_batches(place, tmp_path, monkeypatch):
    """Where the first batch takes the longest."""
    line = ("predict", place / "m.skops", place / "new.csv", "--chunk-rows", 40, "-o")
    succeed(*line, tmp_path / "one.csv", "--jobs", 1)
    decide, calls = NeymanPearsonClassifier.decision_function, []

    def later_ones_are_faster(*given):
        calls.append(given)
        time.sleep(0.1 * (len(calls) == 1))
        return decide(*given)

    monkeypatch.setattr(NeymanPearsonClassifier, "decision_function", later_ones_are_faster)
    succeed(*line, tmp_path / "four.csv", "--jobs", 4)
    assert (tmp_path / "four.csv").read_bytes() == (tmp_path / "one.csv").read_bytes()


def test_batches_are_read_as_results_are_taken(place, tmp_path, monkeypatch):
    """While the first batch is in work, few others are: the rest of the file is not in memory."""
    decide, first, calls, waiting = NeymanPearsonClassifier.decision_function, threading.Lock(), [], []

    def first_one_waits(*given):
        calls.append(given)
        if first.acquire(blocking=False):
            time.sleep(0.3)
            waiting.append(len(calls))
        return decide(*given)

    monkeypatch.setattr(NeymanPearsonClassifier, "decision_function", first_one_waits)
    succeed("predict", place / "m.skops", place / "new.csv", "--chunk-rows", 10, "--jobs", 2,
            "-o", tmp_path / "out.csv")  # fmt: skip
    assert len(calls) == 65
    assert waiting[0] <= 3


def test_an_error_in_a_batch_ends_the_work(place, tmp_path, monkeypatch):
    decide, calls = NeymanPearsonClassifier.decision_function, []

    def fail(*given):
        calls.append(given)
        if len(calls) == 2:
            raise ValueError("of a batch")
        return decide(*given)

    monkeypatch.setattr(NeymanPearsonClassifier, "decision_function", fail)
    line = ("predict", place / "m.skops", place / "new.csv", "--chunk-rows", 10, "--jobs", 2)
    done = command(*line, "-o", tmp_path / "out.csv")
    assert (done.code, "of a batch" in done.err) == (1, True)
    assert len(calls) < 10
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("typed", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_numbers_and_harmless_texts_are_not_touched(place, tmp_path, typed):
    """In a file whose first batch has nothing to guard, and whose texts are of any type."""
    texts = [*["harmless"] * 20, *HARMLESS, *HOSTILE]
    table = pa.Table.from_pandas(frame(1).head(len(texts)), preserve_index=False)
    table = table.append_column("=name", pa.array(texts).cast(typed)).append_column("n", pa.array(range(-5, 30)))
    pa.parquet.write_table(table, tmp_path / "new.parquet")
    line = ("predict", place / "m.skops", tmp_path / "new.parquet", "--chunk-rows", 20, "--json", "-o")
    done = succeed(*line, tmp_path / "out.csv", "--id", "=name")
    options = pa.csv.ConvertOptions(column_types={"'=name": pa.string()}, strings_can_be_null=True,
                                    quoted_strings_can_be_null=False)  # fmt: skip
    found = pa.csv.read_csv(tmp_path / "out.csv", convert_options=options,
                            parse_options=pa.csv.ParseOptions(newlines_in_values=True))  # fmt: skip
    assert found.column_names == ["'=name", "score", "decision"]
    assert found.column(0).to_pylist() == [*["harmless"] * 20, *HARMLESS, *("'" + each for each in HOSTILE)]
    assert done.document["n_guarded"] == len(HOSTILE)
    assert succeed(*line, tmp_path / "out.csv", "--id", "n").document["n_guarded"] == 0
    assert pd.read_csv(tmp_path / "out.csv")["n"].tolist() == list(range(-5, 30))
