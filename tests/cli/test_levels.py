"""``taufpl evaluate --by``: rates by the levels of a column, the verdict on each, and the exit code."""

import numpy as np
import pytest

from cli_cases import NAMES, command, frame, succeed, write
from taufpl.metrics import rates_by_level
from taufpl.persistence import load_model

QUICK = ("--tau", "0.05", "--model", "logistic", "--threshold", "np")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A model, and new rows with columns that it does not know."""
    folder = tmp_path_factory.mktemp("levels")
    write(frame(0), folder / "train.csv")
    succeed("fit", folder / "train.csv", "--target", "y", *QUICK, "-o", folder / "m.skops")
    table = frame(1, n=3000)
    rng = np.random.default_rng(0)
    table["country"] = rng.choice(
        np.array(["EU", "US", "FO", None], dtype=object), len(table), p=[0.5, 0.3, 0.15, 0.05]
    )
    table["branch"] = rng.integers(1, 4, len(table)).astype(float)
    table["many"] = rng.integers(0, 200, len(table))
    # In one small country all is well over the threshold.
    table.loc[table["country"] == "FO", NAMES] += 0.5
    for name in ("new.csv", "new.parquet", "new.svm"):
        write(table, folder / name)
    return folder, table


def rates_of(place, column):
    folder, table = place
    flagged = load_model(folder / "m.skops").model.predict(table[NAMES])
    return rates_by_level(table["y"], flagged, table[column], 0.05)


def test_a_level_that_breaks_the_tolerance_is_named_and_is_an_exit_code(place):
    folder, _ = place
    done = succeed("evaluate", folder / "m.skops", folder / "new.csv", "--by", "country", "--json", code=3).document
    assert done["verdict"] != "broken"
    found, expected = done["by"]["levels"], rates_of(place, "country")
    assert [each["level"] for each in found] == ["EU", "US", "FO", "missing"]
    for each, known in zip(found, expected, strict=True):
        for name in ("n_negative", "n_positive", "n_false_positive", "n_true_positive", "fpr", "verdict"):
            assert each[name] == getattr(known, name)
        assert each["fpr_lower_bound"] == pytest.approx(known.fpr_lower_bound)
        assert (each["recall_low"], each["recall_high"]) == pytest.approx(known.recall_interval)
    assert [each["level"] for each in found if each["verdict"] == "broken"] == ["FO"]
    assert done["by"]["delta_of_each"] == pytest.approx(1 - 0.95**0.25)
    told = succeed("evaluate", folder / "m.skops", folder / "new.csv", "--by", "country", code=3).out
    assert "broken in 1 of 4 levels: FO" in told
    assert "By country: bounds hold for all levels together, at 95% confidence" in told


def test_names_are_shown_as_they_are(place, tmp_path):
    folder, table = place
    table.rename(columns={"country": "flow [/s]"}).to_csv(tmp_path / "a[red]b :cat:.csv", index=False)
    told = succeed("evaluate", folder / "m.skops", tmp_path / "a[red]b :cat:.csv", "--by", "flow [/s]", code=3).out
    assert "flow [/s]" in told
    assert "a[red]b :cat:.csv" in told


def test_levels_do_not_depend_on_batches_and_formats(place):
    folder, table = place
    document = [
        succeed(
            "evaluate", folder / "m.skops", folder / data, "--by", "branch", "--chunk-rows", rows, "--json"
        ).document
        for data, rows in (("new.csv", 65_536), ("new.parquet", 100))
    ]
    assert document[0] == document[1]
    assert sorted(each["level"] for each in document[0]["by"]["levels"]) == ["1", "2", "3"]
    many = succeed("evaluate", folder / "m.skops", folder / "new.parquet", "--by", "many", "--json").document["by"]
    assert len(many["levels"]) == 50
    assert many["levels"][-1]["level"] == "the 151 other levels"
    assert sum(each["n_negative"] for each in many["levels"]) == (table["y"] == 0).sum()


def test_a_column_of_the_model_may_be_the_one(place, tmp_path):
    data = write(frame(2).assign(x3=1.0), tmp_path / "new.csv")
    done = succeed("evaluate", place[0] / "m.skops", data, "--by", "x3", "--json").document
    assert [each["level"] for each in done["by"]["levels"]] == ["1"]
    assert done["by"]["levels"][0]["fpr_upper_bound"] == done["fpr_upper_bound"]


def test_rows_that_were_seen_keep_nothing(place):
    folder, _ = place
    done = succeed("evaluate", folder / "m.skops", folder / "train.csv", "--by", "x0", "--json").document
    assert {each["verdict"] for each in done["by"]["levels"]} == {"open"}


@pytest.mark.parametrize(
    ("data", "by", "code", "message"),
    [
        ("new.csv", "contry", 1, "there is no column 'contry'. Did you mean 'country'?"),
        ("new.csv", "y", 2, "--by y is the target"),
        ("new.svm", "country", 2, "--by country: the columns of a svmlight file have no names"),
    ],
)
def test_wrong_use_is_explained(place, data, by, code, message):
    done = command("evaluate", place[0] / "m.skops", place[0] / data, "--by", by)
    assert done.code == code
    assert message in done.err
