"""Files of decisions: every column under its own name, and no cell that a spreadsheet runs."""

import time

import pandas as pd
import pyarrow as pa
import pytest

from cli_cases import frame, succeed, write
from taufpl.cli._formulas import guard_formulas
from taufpl.cli._in_order import in_order

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


def test_results_come_in_the_order_of_the_batches():
    def later_ones_are_faster(batch):
        time.sleep(0.02 * (batch == 0))
        return batch

    with in_order(later_ones_are_faster, range(20), 4) as found:
        assert list(found) == list(range(20))


def test_batches_are_read_as_results_are_taken():
    read = []
    batches = (read.append(batch) or batch for batch in range(100))
    with in_order(lambda batch: batch, batches, 2) as found:
        assert next(found) == 0
        assert len(read) <= 3


def test_an_error_in_a_batch_ends_the_work():
    done = []

    def fail(batch):
        if batch == 1:
            raise ValueError("of a batch")
        done.append(batch)

    with pytest.raises(ValueError, match="of a batch"), in_order(fail, range(1000), 2) as found:
        list(found)
    assert len(done) < 10


def test_numbers_and_harmless_texts_are_not_touched():
    texts = pa.array([*HARMLESS, *HOSTILE])
    table = pa.table({"=name": texts, "number": pa.array(range(len(texts))), "level": texts.dictionary_encode()})
    guarded, n_guarded = guard_formulas(table)
    assert guarded.column_names == ["'=name", "number", "level"]
    for place in (0, 2):
        assert guarded.column(place).to_pylist() == [*HARMLESS, *("'" + each for each in HOSTILE)]
    assert guarded.column(1).equals(table.column(1))
    assert n_guarded == 2 * len(HOSTILE)
    # Every batch has the same types, whether anything in it was guarded or not.
    assert guarded.schema.types[0] == guard_formulas(table.slice(0, 2))[0].schema.types[0]
