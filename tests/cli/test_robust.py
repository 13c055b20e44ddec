"""What the command meets outside: signals, noise for files, fields and numbers without end, broken headers."""

import copy
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from hypothesis import settings

from cli_cases import command, contents, frame, mixed, numbers, succeed, write
from persistence_cases import rewrite
from taufpl import TauFPLClassifier, TauFPLRanker
from taufpl.cli._layout import layout_of
from taufpl.cli._loaded_model import open_model
from taufpl.exceptions import ModelFileError
from taufpl.persistence import load_model
from taufpl.persistence.files._model_file import _read_header


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("robust")
    write(frame(0), folder / "train.csv")
    write(mixed(0), folder / "mixed.csv")
    quick = ("--tau", 0.05, "--model", "logistic", "--threshold", "np", "-o")
    succeed("fit", folder / "train.csv", "--target", "y", *quick, folder / "m.skops")
    succeed("fit", folder / "mixed.csv", "--target", "y", "--positive", "fraud", *quick, folder / "mixed.skops")
    return folder


# Signals


@pytest.mark.skipif(os.name != "posix", reason="signals are sent as on POSIX")
@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_sigterm_in_the_middle_of_writing_leaves_the_old_file_alone(place, tmp_path, jobs):
    (tmp_path / "out.csv").write_text("old")
    code = (
        "import sys, time, taufpl.cli._predict as p\n"
        "from taufpl.cli import main\n"
        "real = p._decide\n"
        "def slow(*a):\n"
        "    if a[1].start == 350:\n"
        "        print('writing', flush=True)\n"
        "        time.sleep(60)\n"
        "    return real(*a)\n"
        "p._decide = slow\n"
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
    monkeypatch.setattr("taufpl.cli._tables._BLOCKS", (1 << 16, 1 << 20))
    lines = (place / "train.csv").read_text().splitlines()
    (tmp_path / "open.csv").write_text("\n".join([lines[0], '"1,2,3,4,0', *lines[1:] * 200]))
    for line in (
        ("predict", place / "m.skops", tmp_path / "open.csv", "-o", tmp_path / "out.csv"),
        ("fit", tmp_path / "open.csv", "--target", "y", "-o", tmp_path / "m.skops"),
    ):
        assert "a row is longer than 1 MiB. Is a quotation mark opened and never closed?" in command(*line).err


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


def test_a_broken_header_ends_in_a_sentence(place, tmp_path):
    with zipfile.ZipFile(place / "mixed.skops") as archive:
        header = json.loads(json.loads(json.loads(archive.read("schema.json"))["content"]["header"]["content"]))
    cases = list(broken(header))
    assert len(cases) > 900
    refused = []
    for path, changed in cases:
        try:
            found = _read_header({"content": {"header": {"content": json.dumps(json.dumps(changed))}}})
            layout_of(found, None).types()
        except ValueError:
            refused.append((path, changed))
    assert len(refused) > 350
    for path, changed in [*random.Random(0).sample(refused, 10), *random.Random(0).sample(cases, 10)]:
        model = tmp_path / "broken.skops"
        shutil.copy(place / "mixed.skops", model)

        def edit(schema, changed=changed):
            schema["content"]["header"]["content"] = json.dumps(json.dumps(changed))

        rewrite(model, edit)
        done = command("predict", model, place / "mixed.csv", "-o", tmp_path / "out.csv")
        assert "Error" not in done.err, (path, done)
        assert done.code in (0, 1)
        assert "cannot be loaded" in done.err or (path, changed) not in refused


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
    model = tmp_path / "broken.skops"
    shutil.copy(place / "m.skops", model)

    def edit(schema):
        node = schema["content"]["header"]
        node["content"] = json.dumps(json.dumps({**json.loads(json.loads(node["content"])), "training": training}))

    rewrite(model, edit)
    with pytest.raises(ModelFileError, match=f"broken.skops cannot be loaded: .*{words}"):
        open_model(model)
    if isinstance(training, list):
        with pytest.raises(ModelFileError, match=words):
            load_model(model)


def test_a_field_that_older_files_lack_takes_its_default_and_one_that_newer_ones_have_is_passed_over(place, tmp_path):
    model = tmp_path / "other.skops"
    shutil.copy(place / "m.skops", model)

    def edit(schema):
        node = schema["content"]["header"]
        header = json.loads(json.loads(node["content"]))
        header["training"]["layout"].pop("zero_based")
        header["training"]["layout"]["season"] = "spring"
        header["training"]["layout"]["columns"][0].pop("levels")
        node["content"] = json.dumps(json.dumps(header))

    rewrite(model, edit)
    assert open_model(model).layout == open_model(place / "m.skops").layout
