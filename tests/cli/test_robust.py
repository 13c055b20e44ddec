"""What the command meets outside: signals, noise for files, fields and numbers without end, broken headers."""

import copy
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import settings

from cli_cases import command, contents, frame, mixed, numbers, succeed, write
from persistence_cases import rewrite
from taufpl import TauFPLClassifier, TauFPLRanker
from taufpl.exceptions import ModelFileError
from taufpl.persistence import load_model


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("robust")
    write(frame(0), folder / "train.csv")
    write(mixed(0), folder / "mixed.csv")
    quick = ("--tau", 0.05, "--model", "logistic", "--threshold", "np", "-o")
    succeed("fit", folder / "train.csv", "--target", "y", *quick, folder / "m.skops")
    mixed_rows = ("fit", folder / "mixed.csv", "--target", "y", "--positive", "fraud")
    succeed(*mixed_rows, *quick, folder / "mixed.skops")
    succeed(*mixed_rows, "--score", "x0", "-o", folder / "score.skops")
    return folder


# Signals


@pytest.mark.skipif(os.name != "posix", reason="signals are sent as on POSIX")
@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_sigterm_in_the_middle_of_writing_leaves_the_old_file_alone(place, tmp_path, jobs):
    (tmp_path / "out.csv").write_text("old")
    code = (
        "import itertools, sys, time\n"
        "from taufpl import NeymanPearsonClassifier as Screen\n"
        "from taufpl.cli import main\n"
        "real, calls = Screen.decision_function, itertools.count()\n"
        "def slow(*a):\n"
        "    if next(calls) == 7:\n"
        "        print('writing', flush=True)\n"
        "        time.sleep(60)\n"
        "    return real(*a)\n"
        "Screen.decision_function = slow\n"
        f"sys.argv[1:] = ['predict', {str(place / 'm.skops')!r}, {str(place / 'train.csv')!r}, '-o', 'out.csv', "
        f"'--chunk-rows', '50', '--jobs', '{jobs}']\n"
        "main()\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    assert len(list(tmp_path.iterdir())) == 2
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 143
    assert err == "taufpl: terminated; what was finished is kept, and nothing is half-written.\n"
    assert contents(tmp_path) == {"out.csv": b"old"}


def test_a_handler_of_others_is_left_alone(place):
    before = signal.getsignal(signal.SIGTERM)
    mine = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        now = signal.getsignal(signal.SIGTERM)
        succeed("export", place / "m.skops", "--sql")
        assert signal.getsignal(signal.SIGTERM) is now
    finally:
        signal.signal(signal.SIGTERM, mine)
    assert signal.getsignal(signal.SIGTERM) is before


# Files


def noise(seed):
    """5,000 bytes: any, letters and signs, or little but delimiters, quotes and line ends."""
    rng = np.random.default_rng(seed)
    if seed % 3 == 0:
        return rng.bytes(5000)
    if seed % 3 == 1:
        return rng.integers(32, 127, 5000).astype(np.uint8).tobytes().replace(b"~", b"\n")
    return rng.choice(np.frombuffer(b'ab1,"\n\r;', np.uint8), 5000).tobytes()


def test_noise_is_no_csv_file(place, tmp_path):
    for seed in range(3 * settings().max_examples // 10):
        (tmp_path / "noise.csv").write_bytes(noise(seed))
        for line in (
            ("fit", tmp_path / "noise.csv", "--target", "y", "-o", tmp_path / "m.skops"),
            ("predict", place / "m.skops", tmp_path / "noise.csv", "-o", tmp_path / "out.csv"),
        ):
            done = command(*line)
            assert (done.code, "noise.csv" in done.err, "Error" in done.err) == (1, True, False), done
        done = command("monitor", place / "m.skops", "-", stdin=noise(seed))
        assert (done.code, "standard input" in done.err, "Error" in done.err) == (1, True, False), done


@pytest.mark.slow
def test_a_field_of_20_megabytes(place, tmp_path):
    """In a column that is ignored, as an id, in training, and on standard input."""
    table = frame(1).assign(note="a")
    write(table, tmp_path / "short.csv")
    table.loc[400, "note"] = "b" * 20_000_000
    wide = write(table, tmp_path / "wide.csv")
    for name, options in (("short", ()), ("wide", ()), ("id", ("--id", "note"))):
        data = tmp_path / f"{'short' if name == 'short' else 'wide'}.csv"
        succeed("predict", place / "m.skops", data, "-o", tmp_path / f"{name}.out.csv", "--chunk-rows", 100, *options)
    assert (tmp_path / "wide.out.csv").read_bytes() == (tmp_path / "short.out.csv").read_bytes()
    written = (tmp_path / "id.out.csv").read_text().splitlines()
    assert len(written) == 651
    assert [len(each) > 20_000_000 for each in written].index(True) == 401
    quick = ("--tau", 0.05, "--model", "logistic", "--threshold", "np")
    succeed("fit", wide, "--target", "y", *quick, "-o", tmp_path / "m.skops")
    lines = wide.read_bytes().splitlines(keepends=True)
    assert succeed("monitor", place / "m.skops", "-", "--json", stdin=b"".join(lines)).document["n_rows"] == 650


def test_what_is_wrong_with_a_long_field_is_said_shortly(place, tmp_path):
    table = frame(1).astype({"x1": object, "y": object})
    table.loc[5, "x1"] = "b" * 2_000_000
    write(table, tmp_path / "number.csv")
    table.loc[5, ["x1", "y"]] = [1.0, "c" * 2_000_000]
    write(table, tmp_path / "label.csv")
    for name in ("number", "label"):
        done = command("evaluate", place / "m.skops", tmp_path / f"{name}.csv")
        assert done.code == 1
        assert "line 7, column 'x1'" in done.err or "row 6: the label 'ccc" in done.err
        assert len(done.err) < 600


def test_a_row_that_never_ends_is_an_error_in_words(place, tmp_path, monkeypatch):
    options, sizes = pa.csv.ReadOptions, []

    def small(*, block_size, **others):
        sizes.append(block_size)
        return options(block_size=min(block_size, 1 << 20), **others)

    monkeypatch.setattr(pa.csv, "ReadOptions", small)
    lines = (place / "train.csv").read_text().splitlines()
    (tmp_path / "open.csv").write_text("\n".join([lines[0], '"1,2,3,4,0', *lines[1:] * 200]))
    for line in (
        ("predict", place / "m.skops", tmp_path / "open.csv", "-o", tmp_path / "out.csv"),
        ("fit", tmp_path / "open.csv", "--target", "y", "-o", tmp_path / "m.skops"),
    ):
        sizes.clear()
        assert "a row is longer than 256 MiB. Is a quotation mark opened and never closed?" in command(*line).err
        assert max(sizes) == 256 << 20 > min(sizes)


def test_a_header_of_megabytes_is_read(place, tmp_path):
    table = frame(1)
    wide = [*table.columns, *(f"a_column_that_the_model_does_not_know_{i}" for i in range(30_000))]
    lines = (",".join(map(repr, row)) + "," * 30_000 for row in table.itertuples(index=False))
    (tmp_path / "wide.csv").write_text("\n".join([",".join(wide), *lines][:40]) + "\n")
    assert (tmp_path / "wide.csv").stat().st_size > 2 << 20
    done = succeed("predict", place / "m.skops", tmp_path / "wide.csv", "-o", tmp_path / "out.csv", "--json")
    assert done.document["n_rows"] == 39
    (tmp_path / "empty.csv").write_text("")
    for text in ("", "\n\n"):
        (tmp_path / "empty.csv").write_text(text)
        done = command("predict", place / "m.skops", tmp_path / "empty.csv", "-o", tmp_path / "out.csv")
        assert (done.code, "empty" in done.err) == (1, True)


# Numbers


@pytest.mark.parametrize("value", [1e300, -1e300, 2e150])
def test_values_whose_squares_overflow_are_named(place, tmp_path, value):
    table = frame(1)
    table.loc[3, "x1"] = value
    for kind in ("csv", "parquet", "npz"):
        data = write(table, tmp_path / f"huge.{kind}")
        where = f"huge.{kind}, row 4, column 'x1': the value {value:g} is too large: beyond 1e+150 squares overflow"
        target = () if kind == "npz" else ("--target", "y")
        assert where in command("fit", data, *target, "-o", tmp_path / "m.skops").err
        assert where in command("predict", place / "m.skops", data, "-o", tmp_path / "out.csv").err


def test_the_library_names_such_values_too():
    X, y = numbers(0)
    X[3, 1] = -1e300
    for model in (TauFPLClassifier(0.05), TauFPLRanker(0.05)):
        with pytest.raises(ValueError, match=r"at most 1e\+150, whose squares are finite too; got 1e\+300"):
            model.fit(X, y)
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"contains NaN(.|\n)*a scaler before TauFPLRanker makes NaN of values beyond"):
        TauFPLRanker(0.05).fit(X, y)


HINTS = {
    "1": "must lie strictly between 0 and 1; got 1. It is a share: 1 % is 0.01.",
    "5": "It is a share: 5 % is 0.05.",
    "1%": "must be a share, a number strictly between 0 and 1; got '1%'. 1 % is 0.01.",
    "0.5 %": "0.5 % is 0.005.",
    "0,01": "must be a number with a decimal point; got '0,01'. Did you mean 0.01?",
    "much": "must be a number strictly between 0 and 1; got 'much'.",
    "200": "must lie strictly between 0 and 1; got 200. Try",
    "1e-320": "must be at least 1e-12",
}


@pytest.mark.parametrize("given", HINTS)
def test_whoever_writes_percent_is_told_how(place, given):
    done = command("fit", place / "train.csv", "--target", "y", "--tau", given, "-o", place / "none.skops")
    assert done.code == 2
    assert "invalid value for '--tau': must " in done.err
    assert HINTS[given] in done.err


# Model files


JUNK = [None, [], {}, "x", 3, -1, 1.5, True, [1], {"a": 1}, [[]], "\ud800", 10**400, ""]


def paths(value, here=()):
    """Where a value has parts, and of lists the first two."""
    yield here
    if isinstance(value, dict):
        for name in value:
            yield from paths(value[name], (*here, name))
    elif isinstance(value, list):
        for at in range(min(len(value), 2)):
            yield from paths(value[at], (*here, at))


def broken(header):
    """Headers of which one part is missing or another thing."""
    for path in paths(header):
        for junk in [*JUNK, "missing"]:
            changed = copy.deepcopy(header)
            at = changed
            for name in path[:-1]:
                at = at[name]
            if not path:
                changed = junk
            elif junk == "missing":
                del at[path[-1]]
            else:
                at[path[-1]] = junk
            yield path, changed


def header_of(model):
    with zipfile.ZipFile(model) as archive:
        return json.loads(json.loads(json.loads(archive.read("schema.json"))["content"]["header"]["content"]))


def with_header(model, copied, header):
    """A copy of a model file with another header."""
    shutil.copy(model, copied)

    def edit(schema):
        schema["content"]["header"]["content"] = json.dumps(json.dumps(header))

    rewrite(copied, edit)
    return copied


def test_a_broken_header_ends_in_a_sentence(place, tmp_path):
    """In many ways of a small file, and in some of one with columns of every kind."""
    cases, n_refused = list(broken(header_of(place / "score.skops"))), 0
    assert len(cases) > 1000
    n_cases = 6 * settings().max_examples
    for path, changed in random.Random(0).sample(cases, n_cases):
        done = command("info", with_header(place / "score.skops", tmp_path / "broken.skops", changed), "--json")
        assert done.code in (0, 1)
        assert "Error" not in done.err, (path, done)
        assert ("cannot be loaded" in done.err) == (done.code == 1), (path, done)
        n_refused += done.code
    assert n_refused > 0.3 * n_cases
    for path, changed in random.Random(0).sample(list(broken(header_of(place / "mixed.skops"))), 30):
        model = with_header(place / "mixed.skops", tmp_path / "broken.skops", changed)
        done = command("predict", model, place / "mixed.csv", "-o", tmp_path / "out.csv")
        assert done.code in (0, 1)
        assert "Error" not in done.err, (path, done)


@pytest.mark.parametrize(
    ("training", "words"),
    [
        ([], "its header.training is not an object but \\[\\]"),
        ({"layout": 3}, "its layout is not an object but 3"),
        ({"layout": {"columns": [{"name": "x0"}], "target": None}}, r"its layout.columns\[0\] lacks 'kind'"),
        ({"layout": {"columns": [{"name": "x0", "kind": "odd"}], "target": None}}, "a column of the kind 'odd'"),
        ({"layout": {"columns": [{"name": "x0", "kind": "number"}] * 2, "target": None}}, "two columns of one name"),
        ({"layout": {"columns": [], "target": 3}}, "its layout.target is not a text but 3"),
    ],
)
def test_what_is_broken_is_named(place, tmp_path, training, words):
    header = header_of(place / "m.skops") | {"training": training}
    model = with_header(place / "m.skops", tmp_path / "broken.skops", header)
    done = command("info", model)
    assert done.code == 1
    assert re.search(f"broken.skops cannot be loaded: .*{words}", done.err)
    if isinstance(training, list):
        with pytest.raises(ModelFileError, match=words):
            load_model(model)


def test_a_field_that_older_files_lack_takes_its_default_and_one_that_newer_ones_have_is_passed_over(place, tmp_path):
    header = header_of(place / "m.skops")
    header["training"]["layout"].pop("zero_based")
    header["training"]["layout"]["season"] = "spring"
    header["training"]["layout"]["columns"][0].pop("levels")
    model = with_header(place / "m.skops", tmp_path / "other.skops", header)
    told = [succeed("info", each, "--json").document for each in (model, place / "m.skops")]
    assert told[0]["columns"] == told[1]["columns"]
    for each, name in ((model, "other.csv"), (place / "m.skops", "own.csv")):
        succeed("predict", each, place / "train.csv", "-o", tmp_path / name)
    assert (tmp_path / "other.csv").read_bytes() == (tmp_path / "own.csv").read_bytes()
