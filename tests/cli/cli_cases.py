"""Files and a runner for the tests of the command line."""

import functools
import gzip
import io
import json
import os
import re
import shlex
import sys
import zipfile
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import typer
from sklearn.datasets import dump_svmlight_file

from taufpl.cli import main

# Exit code of evaluate where the rows settle no verdict.
UNDECIDED = 4
# Lines that long work writes now and then: what a command says must not depend on how busy the machine is.
_SO_FAR = re.compile(r"^taufpl: .* \(\d{2,} s so far\)\n", re.MULTILINE)
# The parser of thirteen commands is made once for all tests: that takes as long as the work of a small command.
typer.main.get_command = functools.cache(typer.main.get_command)

N_NEGATIVE, N_POSITIVE = 500, 150
NAMES = [f"x{place}" for place in range(4)]
FORMATS = ("csv", "tsv", "csv.gz", "parquet", "feather", "arrow", "npz", "svm", "txt")


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def document(self):
        return json.loads(self.out, parse_constant=_refuse)


def _refuse(name):
    raise AssertionError(f"{name} is no JSON")


def exit_code(*arguments):
    """Run the command line in this process, with its streams as they are."""
    line = ["taufpl", *(str(each) for each in arguments)]
    # After a signal the command ends its process at once.
    with mock.patch.object(sys, "argv", line), mock.patch.object(os, "_exit", sys.exit):
        try:
            main()
        except SystemExit as end:
            return end.code
    raise AssertionError("the command has not ended its process")


def command(*arguments, stdin=b""):
    """Run the command line in this process; from `stdin` as bytes, or as it is read from an object of bytes."""
    out, err = io.StringIO(), io.StringIO()
    file = io.BytesIO(stdin) if isinstance(stdin, bytes) else stdin
    with mock.patch.object(sys, "stdin", io.TextIOWrapper(file)), redirect_stdout(out), redirect_stderr(err):
        code = exit_code(*arguments)
    return Done(code, out.getvalue(), _SO_FAR.sub("", err.getvalue()))


def succeed(*arguments, code=0, **options):
    """Run a command that has to end as told; rows that settle no verdict are no failure of evaluate."""
    done = command(*arguments, **options)
    assert done.code == code or (code == 0 and arguments[0] == "evaluate" and done.code == UNDECIDED), done
    assert "Traceback" not in done.err, done.err
    return done


def commands_of(page):
    """The command lines that a page of the docs shows, as words without the name of the command."""
    lines = (Path(__file__).parents[2] / "docs" / page).read_text(encoding="utf-8").splitlines()
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("taufpl ")]


def numbers(seed=0, n=N_NEGATIVE, m=N_POSITIVE, shift=1.5):
    """Numbers that any format holds exactly, shuffled, labels 0 and 1."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat([0, 1], [n, m]))
    X = np.round(rng.normal(size=(n + m, len(NAMES))) + shift * y[:, np.newaxis], 3)
    return X, y


def frame(seed=0, **options):
    X, y = numbers(seed, **options)
    table = pd.DataFrame(X, columns=NAMES)
    table["y"] = y
    return table


def mixed(seed=0, n=N_NEGATIVE, m=N_POSITIVE):
    """Numbers with gaps, texts, truth values, and columns that no model can use."""
    rng = np.random.default_rng(seed)
    table = frame(seed, n=n, m=m)
    rows = len(table)
    table.loc[rng.random(rows) < 0.1, "x1"] = np.nan
    table["city"] = rng.choice(np.array(["bonn", "oslo", "rome", None], dtype=object), rows)
    table.loc[:2, "city"] = ["a", "b", "c"]
    table["member"] = rng.random(rows) < 0.5 + 0.3 * table["y"]
    table["when"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(rows), unit="D")
    table["number"] = np.arange(rows) + 7
    table["same"] = 3
    table["empty"] = np.nan
    table["comment"] = [f"text {row}" for row in range(rows)]
    table["y"] = np.where(table["y"] == 1, "fraud", "fine")
    return table


def write(table, path):
    """A frame in the format that the name of the file tells."""
    path, kind = Path(path), "".join(Path(path).suffixes)
    if kind in (".csv", ".tsv", ".csv.gz"):
        table.to_csv(path, index=False, sep="\t" if kind == ".tsv" else ",")
    elif kind == ".parquet":
        table.to_parquet(path, index=False)
    elif kind == ".feather":
        pa.feather.write_feather(pa.Table.from_pandas(table, preserve_index=False), str(path))
    elif kind == ".arrow":
        data = pa.Table.from_pandas(table, preserve_index=False)
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, data.schema) as writer:
            writer.write_table(data)
    elif kind == ".npz":
        np.savez(path, X=table[NAMES].to_numpy(), y=table["y"].to_numpy())
    else:
        dump_svmlight_file(table[NAMES].to_numpy(), table["y"].to_numpy(), str(path), zero_based=False)
    return path


def contents(folder):
    """Every file of a folder, to see that nothing has changed."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def damaged(folder, good):
    """Files of which each has one thing wrong."""
    text = "x0,x1,y\n" + "".join(f"{row},{row * row % 17},{row % 2}\n" for row in range(40))
    rows = text.splitlines(keepends=True)

    def put(name, content):
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)

    put("empty.csv", "")
    put("header.csv", "x0,x1,x2,x3,y\n")
    put("junk.csv", bytes(range(256)) * 4)
    put("latin.csv", "x0,name,y\n1,caf\xe9,0\n2,th\xe9,1\n".encode("latin-1"))
    put("latin_header.csv", "x0,caf\xe9,y\n1,2,0\n2,1,1\n".encode("latin-1"))
    put("three.csv", text.replace("\n5,", "\n5,1,2\n5,"))
    put("one.csv", "".join([rows[0], *rows[1::2]]))
    put("ragged.csv", "".join([*rows[:6], "1,2,1,9\n", *rows[6:]]))
    put("ragged_short.csv", "".join([*rows[:6], "1,2\n", *rows[6:]]))
    put("ragged_late.csv", "".join([rows[0], "\n", *rows[1:6], '1,"two\n\nlines",1\n\n', "1,2,1,9\n", *rows[6:]]))
    put("no_label.csv", text.replace("\n4,16,0", "\n4,16,"))
    put("twice.csv", text.replace("x1", "x0"))
    put("infinite.csv", text.replace("\n7,15,", "\n7,inf,"))
    put("hollow.csv", "a,b,y\n" + "".join(f",,{row % 2}\n" for row in range(30)))
    put("times.csv", "t,y\n" + "".join(f"12:30:{row:02},{row % 2}\n" for row in range(30)))
    put("only_target.csv", "y\n" + "0\n1\n" * 20)
    put("words.csv", text.replace(",0\n", ",fine\n").replace(",1\n", ",fraud\n"))
    put("unknown.xyz", text)
    put("no_suffix", text)
    put("bad.parquet", b"PAR1 and then nothing")
    put("cut.parquet", (folder / "good.parquet").read_bytes()[:-50])
    put("bad.feather", b"ARROW1 and then nothing")
    put("bad.npz", b"PK no archive")
    put("bad.csv.gz", b"\x1f\x8b no archive")
    put("plain.csv.gz", text)
    put("cut.csv.gz", gzip.compress(("x0,x1,y\n" + text * 200).encode())[:-300])
    put("good.parquet.gz", b"anything")
    put("bad.svm", "1 1:2 2:3\n0 1:1 2:x\n1 1:2\n")
    put("label.svm", "1 1:2 2:3\nspam 1:1\n")
    put("order.svm", "1 1:2 2:3\n0 2:1 1:4\n")
    np.savez(folder / "no_y.npz", X=np.eye(3))
    np.savez(folder / "no_x.npz", y=np.arange(3))
    np.savez(folder / "lengths.npz", X=np.eye(3), y=np.arange(4))
    np.savez(folder / "cube.npz", X=np.zeros((2, 2, 2)), y=np.arange(2))
    np.savez(folder / "objects.npz", X=np.array([[object()]]), y=np.arange(1))
    put("text_in_numbers.csv", good.read_text().replace("\n", "\nmany,", 6).replace("many,", "", 5))
    table = frame(1)
    write(table.drop(columns="x2"), folder / "lacks.csv")
    write(table.rename(columns={"x2": "X2"}), folder / "renamed.csv")
    write(table.assign(y=table["y"] + 1), folder / "other_labels.csv")
    write(table[table["y"] == 1], folder / "positives.csv")
    write(table[table["y"] == 0].head(20), folder / "few.csv")
    write(table.assign(y=np.nan), folder / "unlabelled.csv")
    write(table.assign(x3=[f"t{row}" for row in range(len(table))]), folder / "texts.parquet")
    np.savez(folder / "narrow.npz", X=np.eye(3), y=np.array([0, 1, 0]))
    model = (folder / "good.skops").read_bytes()
    put("cut.skops", model[: len(model) // 2])
    put("text.skops", "no model")
    with zipfile.ZipFile(folder / "plain.skops", "w") as archive:
        archive.writestr("hello.txt", "hello")
    _stranger(folder / "good.skops", folder / "stranger.skops", "os", "system", "FunctionNode")
    _stranger(folder / "good.skops", folder / "unaudited.skops", "sklearn.cluster._kmeans", "KMeans", "ObjectNode")


def _stranger(model, path, module, name, loader):
    """A model file that asks for a function, or an object, which is none of its business."""
    with zipfile.ZipFile(model) as old, zipfile.ZipFile(path, "w") as new:
        for info in old.infolist():
            content = old.read(info)
            if info.filename == "schema.json":
                schema = json.loads(content)
                schema["content"]["model"] = {
                    "__class__": name,
                    "__module__": module,
                    "__loader__": loader,
                    "content": name,
                    "__id__": 1,
                }
                content = json.dumps(schema).encode()
            new.writestr(info.filename, content)
