"""What is wrong is said in one sentence, with the place and a way out; nothing is left behind."""

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import typer

from cli_cases import command, contents, damaged, frame, mixed, succeed, write
from taufpl import NeymanPearsonClassifier
from taufpl.cli._errors import with_options
from taufpl.cli._training_file import FitOptions
from taufpl.estimators.strategies import Automatic
from taufpl.thresholding import HeldOut

FIT = "fit {} --target y --tau 0.05 --model logistic -o out.skops"
PREDICT = "predict good.skops {} -o out.csv"
EVALUATE = "evaluate good.skops {}"

# A command line, its exit code, and words of the sentence on stderr.
BAD = [
    # Files that are not there, or not what they are called.
    (FIT.format("none.csv"), 1, "none.csv: there is no such file"),
    (FIT.format("."), 1, "is a folder"),
    (FIT.format("empty.csv"), 1, "empty.csv: is empty"),
    (FIT.format("header.csv"), 1, "header.csv: has a header, but no rows"),
    (FIT.format("junk.csv"), 1, "junk.csv"),
    (FIT.format("unknown.xyz"), 1, "the format '.xyz' is not known; known are .csv"),
    (FIT.format("no_suffix"), 1, "'without a suffix' is not known"),
    (FIT.format("bad.parquet"), 1, "bad.parquet: is damaged"),
    (FIT.format("cut.parquet"), 1, "cut.parquet: is damaged"),
    (FIT.format("bad.feather"), 1, "bad.feather: is damaged"),
    (FIT.format("bad.npz"), 1, "bad.npz: is damaged"),
    (FIT.format("bad.csv.gz"), 1, "bad.csv.gz: is no whole gzip file"),
    (FIT.format("plain.csv.gz"), 1, "plain.csv.gz: is no whole gzip file"),
    (FIT.format("cut.csv.gz"), 1, "cut.csv.gz: is no whole gzip file"),
    (FIT.format("good.parquet.gz"), 1, "only text may be packed"),
    # Tables of which no model can be made.
    (FIT.format("latin.csv"), 1, "column 'name' holds bytes that are not UTF-8"),
    (FIT.format("latin_header.csv"), 1, "latin_header.csv: is not encoded in UTF-8"),
    (FIT.format("three.csv"), 1, "must have two labels; it has 3: 0, 1, 2"),
    (FIT.format("one.csv"), 1, "must have two labels; it has 1: 0. There is nothing to tell apart"),
    (FIT.format("ragged.csv"), 1, "ragged.csv, line 7: 4 fields where the header has 3"),
    (FIT.format("ragged_short.csv"), 1, "ragged_short.csv, line 7: 2 fields where the header has 3"),
    # Empty lines, and a value of three lines, come before.
    (FIT.format("ragged_late.csv"), 1, "ragged_late.csv, line 12: 4 fields where the header has 3"),
    (FIT.format("no_label.csv"), 1, "the target 'y' is missing in 1 rows, first in row 5"),
    (FIT.format("twice.csv"), 1, "two columns named 'x0'"),
    (FIT.format("infinite.csv"), 1, "infinite.csv, row 8, column 'x1': the value is infinite"),
    (FIT.format("hollow.csv"), 1, "no column is left to learn from (a: no value in any row; b"),
    (FIT.format("times.csv"), 1, "no column is left to learn from (t: values of type time32[s] are not used"),
    (FIT.format("only_target.csv"), 1, "there is only the target"),
    (FIT.format("words.csv"), 1, "--positive fine or --positive fraud"),
    ("fit good.csv --target yy -o out.skops", 1, "there is no column 'yy'. Did you mean 'y'?"),
    ("fit good.csv --target y --drop x9 -o out.skops", 1, "there is no column 'x9'. The columns are 'x0', "),
    ("fit good.csv --target y --positive 2 -o out.skops", 1, "the labels 0 and 1, and not '2', which --positive names"),
    ("fit good.csv --target x1 -o out.skops", 1, "must have two labels"),
    (
        "fit good.csv --target y --tau 0.001 --threshold np -o out.skops",
        1,
        "2,995 are needed. Others must be left to learn from. Take --threshold cross",
    ),
    (
        "fit good.csv --target y --tau 0.01 --threshold np --holdout 0.5 -o out.skops",
        1,
        "Take no --holdout, --threshold cross",
    ),
    ("fit good.csv --target y --time x0 --threshold cross -o out.skops", 2, "folds of cross mix earlier and later"),
    ("fit good.csv --target y --group nobody -o out.skops", 1, "there is no column 'nobody'"),
    ("fit good.csv --target y --group y -o out.skops", 2, "--group y is the target"),
    # Matrices.
    (
        FIT.format("bad.svm").replace("--target y", ""),
        1,
        "bad.svm, line 2: '2:x' is not an index, a colon and a number",
    ),
    (FIT.format("label.svm").replace("--target y", ""), 1, "label.svm, line 2: the label 'spam' is not a number"),
    (FIT.format("order.svm").replace("--target y", ""), 1, "line 2: the index 1 comes after 2; indices must ascend"),
    (FIT.format("no_y.npz"), 1, "no_y.npz: has no y"),
    (FIT.format("no_x.npz"), 1, "must hold X and y, or data, indices, indptr, shape and y; it holds y"),
    (FIT.format("lengths.npz"), 1, "X has 3 rows, and y has shape (4,)"),
    (FIT.format("cube.npz"), 1, "X must be a matrix of numbers; it has shape (2, 2, 2)"),
    (FIT.format("objects.npz"), 1, "objects.npz: is damaged, or no .npz archive of plain arrays"),
    # Command lines.
    ("fit", 2, "missing argument 'DATA'"),
    ("fit good.csv --target y", 2, "missing option '-o'"),
    ("fit good.csv -o out.skops", 2, "--target is needed"),
    ("fit good.csv --target y --tau 0 -o out.skops", 2, "must lie strictly between 0 and 1; got 0"),
    ("fit good.csv --target y --tau 1.5 -o out.skops", 2, "must lie strictly between 0 and 1; got 1.5"),
    ("fit good.csv --target y --tau nan -o out.skops", 2, "must lie strictly between 0 and 1; got nan"),
    ("fit good.csv --target y --tau much -o out.skops", 2, "invalid value for '--tau'"),
    ("fit good.csv --target y --delta 1 -o out.skops", 2, "'--delta': must lie strictly between 0 and 1"),
    (
        "fit good.csv --target y --threshold best -o out.skops",
        2,
        "'best' is not one of 'auto', 'np', 'cross', 'oob', 'train'",
    ),
    ("fit good.csv --target y --model svm -o out.skops", 2, "'svm' is not one of 'auto', 'linear'"),
    ("fit good.csv --target y --model paper --reg -1 -o out.skops", 2, "must be cv or a number above 0; got '-1'"),
    ("fit good.csv --target y --reg 0.1 -o out.skops", 2, "--reg 0.1 is the penalty of --model paper and kernel"),
    ("fit good.csv --target y --jobs 0 -o out.skops", 2, "invalid value for '--jobs': must be a number above 0, or -1"),
    ("fit good.csv --target y --seed -1 -o out.skops", 2, "invalid value for '--seed'"),
    ("fit good.csv --target y --drop y -o out.skops", 2, "--drop y is the target"),
    ("fit good.npz --target z -o out.skops", 2, "have no other name than y"),
    ("fitt good.csv", 2, "no such command 'fitt'"),
    ("fit good.csv --tua 0.1 -o out.skops", 2, "no such option: --tua"),
    ("predict good.skops good.csv -o out.csv --chunk-rows 0", 2, "invalid value for '--chunk-rows'"),
    ("predict good.skops good.npz -o out.csv --id x0", 2, "have no names"),
    ("report good.skops good.csv -o out.html --base-rate 2", 2, "must lie strictly between 0 and 1; got 2"),
    ("export good.skops", 2, "--onnx, --json or --sql is needed"),
    ("export good.skops --onnx out.onnx --sql", 2, "ask for one"),
    # Models.
    ("predict none.skops good.csv -o out.csv", 1, "none.skops: there is no such file"),
    ("predict . good.csv -o out.csv", 1, "is a folder; name a file in it"),
    ("predict text.skops good.csv -o out.csv", 1, "text.skops cannot be loaded: it is not a zip archive"),
    ("predict cut.skops good.csv -o out.csv", 1, "cut.skops cannot be loaded"),
    ("predict plain.skops good.csv -o out.csv", 1, "plain.skops cannot be loaded"),
    ("predict stranger.skops good.csv -o out.csv", 1, "types that are not known here: os.system"),
    (
        "predict unaudited.skops good.csv -o out.csv",
        1,
        "holds sklearn.cluster._kmeans.KMeans, whose state is not checked",
    ),
    ("info unaudited.skops", 1, "load_model(..., trusted=['sklearn.cluster._kmeans.KMeans']) loads it, which is for"),
    ("predict good.csv good.skops -o out.csv", 1, "the format '.skops' is not known"),
    ("evaluate cut.skops good.csv", 1, "cut.skops cannot be loaded"),
    ("monitor text.skops good.csv", 1, "text.skops cannot be loaded"),
    ("recalibrate text.skops good.csv", 1, "text.skops cannot be loaded"),
    ("export text.skops --sql", 1, "text.skops cannot be loaded"),
    ("report text.skops good.csv -o out.html", 1, "text.skops cannot be loaded"),
    ("export boosted.skops --sql", 1, "SQL holds linear models only"),
    ("export good.skops --sql --dialect klingon", 1, "dialect must be one of"),
    # Rows that do not fit a model.
    (PREDICT.format("lacks.csv"), 1, "lacks.csv: there is no column 'x2', which the model needs"),
    (PREDICT.format("renamed.csv"), 1, "no column 'x2', which the model needs"),
    (PREDICT.format("text_in_numbers.csv"), 1, "text_in_numbers.csv, line 7"),
    (PREDICT.format("texts.parquet"), 1, "texts.parquet, row 1, column 'x3': 't0' is not a number"),
    (PREDICT.format("word_in_numbers.csv"), 1, "word_in_numbers.csv, line 4, column 'x1': 'many' is not a number"),
    (PREDICT.format("infinite_new.csv"), 1, "infinite_new.csv, row 3, column 'x1': the value is infinite"),
    (PREDICT.format("header.csv"), 1, "header.csv: has no rows"),
    (PREDICT.format("narrow.npz"), 1, "has 3 columns, and the model was fitted on 4"),
    (PREDICT.format("good.csv") + " --id nobody", 1, "there is no column 'nobody'"),
    (EVALUATE.format("other_labels.csv"), 1, "the label '2' in 'y' is none of the model's, 0 and 1"),
    (EVALUATE.format("positives.csv"), 1, "there are no negatives, 0, to measure FPR on"),
    (EVALUATE.format("unlabelled.csv"), 1, "there are no negatives"),
    (EVALUATE.format("good.csv") + " --target z", 1, "there is no column 'z'"),
    (EVALUATE.format("lacks.csv"), 1, "there is no column 'x2'"),
    (EVALUATE.format("no_y_4.npz"), 1, "has no y"),
    ("recalibrate good.skops few.csv -o out.skops", 1, "few.csv: 20 negatives are too few"),
    ("recalibrate good.skops few.csv -o out.skops", 1, "59 are needed"),
    ("recalibrate good.skops few.csv", 1, "59 are needed"),
    ("report good.skops unlabelled.csv -o out.html", 1, "no row has a label"),
    ("monitor good.skops other_labels.csv", 1, "is none of the model's"),
    ("monitor good.skops none.csv", 1, "none.csv: there is no such file"),
    ("monitor good.skops -", 1, "standard input: is empty"),
    # Outputs.
    ("fit good.csv --target y -o good.csv", 1, "good.csv: is the file that is read"),
    ("fit good.csv --target y -o missing/out.skops", 1, "the folder missing does not exist"),
    ("fit good.csv --target y -o good.npz/out.skops", 1, "does not exist"),
    ("fit good.csv --target y -o .", 1, "is a folder"),
    ("fit good.csv --target y -o /dev/full", 1, "/dev/full: is not a regular file"),
    ("fit good.csv --target y -o /proc/out.skops", 1, "/proc/out.skops: cannot be written"),
    ("predict good.skops good.csv -o out.xlsx", 1, "out.xlsx: decisions are written as .csv or .parquet"),
    ("predict good.skops good.csv -o good.skops", 1, "good.skops: is the file that is read"),
    ("predict good.skops good.csv -o missing/out.csv", 1, "the folder missing does not exist"),
    ("report good.skops good.csv -o missing/out.html", 1, "the folder missing does not exist"),
    ("export good.skops --json missing/out.json", 1, "the folder missing does not exist"),
    ("export good.skops --onnx good.skops", 1, "is the file that is read"),
    ("recalibrate good.skops good.csv -o missing/out.skops", 1, "the folder missing does not exist"),
    ("demo -o good.csv", 1, "good.csv: file exists"),
    ("reproduce nothing", 1, "no experiment 'nothing'"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("errors")
    good = write(frame(0), folder / "good.csv")
    write(frame(0), folder / "good.parquet")
    write(frame(0), folder / "good.npz")
    for model, name in (("logistic", "good"), ("boosting", "boosted")):
        succeed("fit", good, "--target", "y", "--tau", 0.05, "--model", model, "--threshold", "np",
                "-o", folder / f"{name}.skops")  # fmt: skip
    damaged(folder, good)
    table = frame(1)
    table.loc[2, "x1"] = np.inf
    write(table, folder / "infinite_new.csv")
    write(frame(1).astype({"x1": object}).assign(x1=lambda t: [*t["x1"][:2], "many", *t["x1"][3:]]),
          folder / "word_in_numbers.csv")  # fmt: skip
    np.savez(folder / "no_y_4.npz", X=np.eye(4))
    return folder


@pytest.mark.parametrize(("line", "code", "words"), BAD, ids=[f"{line} ({words[:20]})" for line, _, words in BAD])
def test_a_bad_command_line_is_answered_in_one_sentence(place, monkeypatch, line, code, words):
    monkeypatch.chdir(place)
    before = contents(place)
    done = command(*line.split())
    assert done.code == code, done
    assert words in done.err
    assert done.out == ""
    said = [text for text in done.err.splitlines() if not text.startswith("taufpl: note: ")]
    assert len(said) == 1
    assert said[0].startswith("taufpl: ")
    assert contents(place) == before
    assert not list(place.glob(".taufpl*"))


def test_there_are_enough_of_them():
    assert len(BAD) >= 40


def test_the_nearest_name_is_offered(place, monkeypatch):
    monkeypatch.chdir(place)
    assert "Did you mean 'X2'?" in command("predict", "good.skops", "renamed.csv", "-o", "out.csv").err


def test_stdin_without_rows_and_with_a_bad_row(place, monkeypatch):
    monkeypatch.chdir(place)
    header = b"x0,x1,x2,x3,y\n"
    done = command("monitor", "good.skops", "-", stdin=header)
    assert (done.code, "has a header, but no rows" in done.err) == (1, True)
    done = command("monitor", "good.skops", "-", stdin=header + b"1,2,3,4,0\n1,2,three,4,0\n")
    assert (done.code, "column 'x2': 'three' is not a number" in done.err) == (1, True)
    done = command("monitor", "good.skops", "-", stdin=header + b"1,2,3\n")
    assert (done.code, "3 fields where the header has 5" in done.err) == (1, True)


def test_no_thread_of_arrow_holds_bytes_of_python(place, monkeypatch):
    """A thread that is the last to let go of them would need the interpreter, which may be about to end."""
    text, read, own = (place / "good.csv").read_bytes(), pa.csv.read_csv, []

    def spy(source, **options):
        assert isinstance(source, pa.NativeFile)
        own.append((source.size(), pa.total_allocated_bytes() - before))
        return read(source, **options)

    monkeypatch.setattr(pa.csv, "read_csv", spy)
    pa.set_memory_pool(pa.system_memory_pool())
    before = pa.total_allocated_bytes()
    assert succeed("monitor", place / "good.skops", "-", "--json", stdin=text).document["n_rows"] == 650
    assert max(size for size, _ in own) == len(text)
    assert all(size <= allocated for size, allocated in own)


@pytest.mark.parametrize("where", ["before", "after"])
def test_debug_lets_the_error_through(place, monkeypatch, where):
    monkeypatch.chdir(place)
    line = ["fit", "none.csv", "--target", "y", "-o", "out.skops"]
    with pytest.raises(ValueError, match=r"none.csv: there is no such file"):
        command(*(["--debug", *line] if where == "before" else [*line, "--debug"]))


@pytest.mark.slow
def test_debug_shows_the_traceback(place):
    line = [sys.executable, "-m", "taufpl.cli", "fit", "none.csv", "--target", "y", "-o", "out.skops", "--debug"]
    done = subprocess.run(line, capture_output=True, text=True, cwd=place, timeout=300, check=False)
    assert done.returncode == 1
    assert "Traceback" in done.stderr


# What is slow in a line, and what that writes to a log while it works; standard input has no end to be near to.
LONG = {
    "predict good.skops good.csv -o {} --chunk-rows 400 --jobs 1": "400 rows",
    "compare good.csv --target y --tau 0.1 --models logistic --folds 2": "comparing: 0 of 1 steps, logistic: fold 1",
    "monitor good.skops -": None,
}


@pytest.mark.parametrize(("line", "told"), LONG.items(), ids=[line.split()[0] for line in LONG])
def test_long_work_says_in_a_log_how_far_it_is(place, tmp_path, monkeypatch, capsys, line, told):
    wait, decide = threading.Event.wait, NeymanPearsonClassifier.decision_function
    text = (place / "good.csv").read_bytes()

    def slow(*given):
        time.sleep(0.2)
        return decide(*given)

    # Half a minute passes in a hundredth of a second.
    monkeypatch.setattr(threading.Event, "wait", lambda event, s=None: wait(event, None if s is None else s / 3000))
    monkeypatch.setattr(NeymanPearsonClassifier, "decision_function", slow)
    monkeypatch.chdir(place)
    done = succeed(*line.format(tmp_path / "out.csv").split(), stdin=text)
    assert re.search(rf"^taufpl: {told}.* \(0 s so far\)$", done.err, re.MULTILINE) if told else done.err == ""
    time.sleep(0.1)
    assert capsys.readouterr().err == ""


def test_words_of_a_library_before_ours_are_left_out(place, monkeypatch):
    def refuse(*_):
        raise typer.BadParameter("Value error, 'lightgbm' is not one of ours.")

    monkeypatch.setattr(typer.core.TyperCommand, "parse_args", refuse)
    assert command("info", place / "good.skops").err == "taufpl: invalid value: 'lightgbm' is not one of ours.\n"


def test_an_error_that_nobody_foresaw_is_a_sentence_too(place, monkeypatch):
    def fail(*_):
        raise ZeroDivisionError("of all things")

    monkeypatch.setattr(NeymanPearsonClassifier, "decision_function", fail)
    before = contents(place)
    done = command("predict", place / "good.skops", place / "good.csv", "-o", place / "out.csv")
    assert (done.code, done.out) == (1, "")
    assert done.err == "taufpl: ZeroDivisionError: of all things (--debug shows where)\n"
    assert contents(place) == before


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_full_disk_leaves_the_old_file(place, tmp_path, monkeypatch, kind):
    out = tmp_path / f"out.{kind}"
    out.write_text("old")
    decide, calls = NeymanPearsonClassifier.decision_function, []

    def full(*given):
        calls.append(given)
        if len(calls) > 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return decide(*given)

    monkeypatch.setattr(NeymanPearsonClassifier, "decision_function", full)
    done = command("predict", place / "good.skops", place / "good.csv", "-o", out, "--chunk-rows", 50)
    assert (done.code, done.err) == (1, "taufpl: no space left on device.\n")
    assert contents(tmp_path) == {out.name: b"old"}


def test_an_interrupt_between_writing_and_renaming_leaves_the_old_file(place, tmp_path, monkeypatch):
    (tmp_path / "out.csv").write_text("old")

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    done = command("predict", place / "good.skops", place / "good.csv", "-o", tmp_path / "out.csv")
    assert done.code == 130
    assert "interrupted" in done.err
    assert contents(tmp_path) == {"out.csv": b"old"}


@pytest.mark.skipif(os.name != "posix", reason="signals are sent as on POSIX")
def test_ctrl_c_in_the_middle_of_a_fit_leaves_nothing(tmp_path):
    write(frame(0, n=4000, m=2000), tmp_path / "train.csv")
    before = contents(tmp_path)
    code = (
        "from taufpl import ScreeningClassifier as Screen\n"
        "from taufpl.cli import main\n"
        "real = Screen.fit\n"
        "def slow(*a, **b):\n"
        "    print('fitting', flush=True)\n"
        "    while True: real(*a, **b)\n"
        "Screen.fit = slow\n"
        "main()\n"
    )
    line = [sys.executable, "-c", code, "fit", "train.csv", "--target", "y", "-o", "out.skops"]
    process = subprocess.Popen(line, cwd=tmp_path, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "fitting\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "interrupted" in err
    assert "Traceback" not in err
    assert contents(tmp_path) == before


def test_the_installed_command_speaks_json(place, tmp_path):
    line = [sys.executable, "-m", "taufpl.cli", "predict", "good.skops", "good.csv", "-o", str(tmp_path / "out.csv")]
    done = subprocess.run([*line, "--json"], capture_output=True, cwd=place, timeout=300, check=True)
    assert json.loads(done.stdout)["n_rows"] == 650
    assert done.stderr == b""
    assert len(pd.read_csv(tmp_path / "out.csv")) == 650


def test_the_help_tells_the_exit_codes():
    done = command("--help")
    assert done.code == 0
    assert "130 interrupted" in " ".join(done.out.split())
    assert "Exit code 3" in " ".join(command("evaluate", "-h").out.split())
    assert command("--version").out.startswith("taufpl 0.")


def test_a_link_is_followed_and_stays_one(place, tmp_path):
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to(Path("real.csv"))
    succeed("predict", place / "good.skops", place / "good.csv", "-o", tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text().startswith('"row","score"')


def test_rows_that_break_off_late_leave_nothing(place, tmp_path):
    """The first rows are written before the last one turns out to be bad."""
    shutil.copy(place / "word_in_numbers.csv", tmp_path / "late.csv")
    table = mixed(0)
    write(table, tmp_path / "mixed.parquet")
    lines = (place / "good.csv").read_text().splitlines()
    (tmp_path / "late.csv").write_text("\n".join([*lines, "1,2,x,4,0"]))
    before = contents(tmp_path)
    done = command(
        "predict", place / "good.skops", tmp_path / "late.csv", "-o", tmp_path / "out.csv", "--chunk-rows", 9
    )
    assert (done.code, f"line {len(lines) + 1}, column 'x2': 'x' is not a number" in done.err) == (1, True)
    assert contents(tmp_path) == before


def test_settings_of_strategies_are_options():
    said = "got 10 of 400 (share=0.5): threshold=HeldOut(share=0.75) would hold out enough. Or take threshold='cross'"
    expected = "got 10 of 400 (--holdout 0.5): --holdout 0.75 would hold out enough. Or take --threshold cross"
    assert with_options(said) == expected
    assert with_options("got 10 of 400 (share='auto'): no") == "got 10 of 400 (--holdout auto): no"


@pytest.mark.parametrize(
    ("threshold", "holdout", "wanted"),
    [
        ("auto", "auto", "auto"),
        ("np", "auto", "np"),
        ("np", 0.3, HeldOut(share=0.3)),
        ("auto", 0.3, Automatic(HeldOut(share=0.3))),
        ("cross", 0.3, "cross"),
    ],
)
def test_a_share_that_is_held_out_goes_with_the_strategy(threshold, holdout, wanted):
    assert FitOptions(tau=0.1, threshold=threshold, holdout=holdout).strategy == wanted
