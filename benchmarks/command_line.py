"""What the command takes: to start, to fit on a large CSV file, and to score one.

    python benchmarks/command_line.py start [--repeats 7]
    python benchmarks/command_line.py fit [--rows 1000000] [--columns 50] [--options "--model linear"] [--profile]
    python benchmarks/command_line.py predict [--rows 1200000] [--columns 20] [--options "--model boosting"] [--jobs 2]

``start``: CPU seconds of processes that show help or import the package, the least of some rounds in turns, beside one
that imports scikit-learn.

``fit``: peak memory is that of the whole process, as a multiple of the parsed data: rows times columns times eight
bytes. With ``--profile`` it is run once more, and the functions with the most own time are listed.

``predict``: ``taufpl predict`` and ``taufpl evaluate``, with one job and with ``--jobs``, over reading the file by
pyarrow into a frame plus the scores of all rows in one call, in one process and in turns. A fifth of the columns are
texts of 30 levels; the model is fitted on 20,000 rows.
"""

import argparse
import cProfile
import io
import json
import pstats
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

BLOCK = 50_000


def write_data(path: Path, n_rows: int, n_columns: int, n_texts: int = 0, seed: int = 0) -> None:
    """Numbers of six digits, one row in twenty positive, and shifted by half a standard deviation in ten columns."""
    rng = np.random.default_rng(seed)
    names = [f"x{place}" for place in range(n_columns)]
    levels = np.array([f"level {place}" for place in range(30)])
    writer = None
    for start in range(0, n_rows, BLOCK):
        rows = min(BLOCK, n_rows - start)
        y = (rng.random(rows) < 0.05).astype(np.int64)
        X = rng.normal(size=(rows, n_columns))
        X[:, :10] += 0.5 * y[:, np.newaxis]
        texts = {f"text{place}": levels[rng.integers(0, 30, rows)] for place in range(n_texts)}
        table = pa.table({**{name: np.round(X[:, place], 5) for place, name in enumerate(names)}, **texts, "y": y})
        writer = writer or pa.csv.CSVWriter(str(path), table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def measure(path: Path, folder: Path, options: list[str]) -> tuple[dict, float]:
    """What the command says, and its peak memory in bytes."""
    line = [
        sys.executable,
        "-m",
        "taufpl.cli",
        "fit",
        str(path),
        "--target",
        "y",
        "--model",
        "linear",
        "-o",
        str(folder / "m.skops"),
    ]
    done = subprocess.run([*line, *options, "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024.0


def profile(path: Path, folder: Path, options: list[str]) -> list[tuple[str, int, float]]:
    """Functions with the most own time: name, calls, share. Compiled code counts for the function that calls it."""
    from taufpl.cli._app import run

    profiler = cProfile.Profile()
    profiler.enable()
    with redirect_stdout(io.StringIO()):
        run(["fit", str(path), "--target", "y", "--model", "linear", "-o", str(folder / "m.skops"), *options, "--json"])
    profiler.disable()
    stats = pstats.Stats(profiler)
    total = sum(own for _, _, own, _, _ in stats.stats.values())
    rows = [
        (f"{Path(file).name}: {name}", calls, own / total)
        for (file, _, name), (_, calls, own, _, _) in stats.stats.items()
    ]
    return sorted(rows, key=lambda row: -row[2])[:8]


STARTS = {
    "import sklearn": ["-c", "import sklearn"],
    "import taufpl": ["-c", "import taufpl"],
    "taufpl --version": ["-m", "taufpl.cli", "--version"],
    "taufpl --help": ["-m", "taufpl.cli", "--help"],
    "taufpl fit --help": ["-m", "taufpl.cli", "fit", "--help"],
    "from taufpl import TauFPLClassifier": ["-c", "from taufpl import TauFPLClassifier"],
}


def cpu_seconds(line: list[str]) -> float:
    """CPU time of a Python process, its end included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *line], stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def start(n_repeats: int) -> None:
    """Print what starts take."""
    rounds = [{name: cpu_seconds(line) for name, line in STARTS.items()} for _ in range(n_repeats)]
    least = {name: min(each[name] for each in rounds) for name in STARTS}
    for name, seconds in least.items():
        print(f"{name:40} {seconds:6.3f} s of CPU, {seconds / least['import sklearn']:5.2f} x import sklearn")


def run_quietly(*words: object) -> None:
    """Run a command line in this process; a tolerance that is broken is no failure here."""
    from taufpl.cli._app import run

    with redirect_stdout(io.StringIO()):
        code = run([str(word) for word in words])
    assert code != 1, words


def timed(task: Callable[[], object]) -> np.ndarray:
    """Seconds of wall clock and of CPU."""
    before = np.array([time.perf_counter(), time.process_time()])
    task()
    return np.array([time.perf_counter(), time.process_time()]) - before


def predict(n_rows: int, n_columns: int, options: list[str], jobs: int, n_repeats: int) -> None:
    """Print what scoring a file takes, over reading it and scoring its rows."""
    from taufpl.persistence import load_model

    n_texts = n_columns // 5
    with tempfile.TemporaryDirectory() as name:
        train, data, model, out = (Path(name) / each for each in ("train.csv", "data.csv", "m.skops", "out.csv"))
        write_data(train, 20_000, n_columns - n_texts, n_texts, seed=1)
        write_data(data, n_rows, n_columns - n_texts, n_texts)
        run_quietly("fit", train, "--target", "y", "-o", model, *(options or ["--model", "boosting"]))
        loaded = load_model(model).model
        wanted = list(loaded.feature_names_in_)
        lines = {
            "predict": ["predict", model, data, "-o", out],
            f"predict --jobs {jobs}": ["predict", model, data, "-o", out, "--jobs", jobs],
            "evaluate": ["evaluate", model, data],
            f"evaluate --jobs {jobs}": ["evaluate", model, data, "--jobs", jobs],
        }
        rounds = []
        for _ in range(n_repeats):
            frames = []
            found = {"reading": timed(lambda frames=frames: frames.append(pa.csv.read_csv(data).to_pandas()[wanted]))}
            found["scoring"] = timed(lambda frames=frames: loaded.decision_function(frames[0]))
            frames.clear()
            rounds.append(found | {name: timed(lambda line=line: run_quietly(*line)) for name, line in lines.items()})
        least = {name: np.min([each[name] for each in rounds], axis=0) for name in rounds[0]}
    alone = least["reading"] + least["scoring"]
    print(f"{n_rows:,} rows, {n_columns} columns")
    print(f"{'':20} {'wall':>8} {'x both':>6} {'CPU':>8} {'x both':>6}, both being reading and scoring")
    for name, (wall, cpu) in least.items():
        print(f"{name:20} {wall:7.1f}s {wall / alone[0]:6.2f} {cpu:7.1f}s {cpu / alone[1]:6.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("start", "fit", "predict"), nargs="?", default="fit")
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--columns", type=int)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--options", default="")
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args()
    if given.part == "start":
        start(given.repeats or 7)
        return
    options = shlex.split(given.options)
    if given.part == "predict":
        predict(given.rows or 1_200_000, given.columns or 20, options, given.jobs, given.repeats or 3)
        return
    given.rows, given.columns = given.rows or 1_000_000, given.columns or 50
    parsed = given.rows * given.columns * 8
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = folder / "data.csv"
        write_data(data, given.rows, given.columns)
        document, peak = measure(data, folder, options)
        seconds = document["seconds"]
        print(
            f"{given.rows:,} rows, {given.columns} columns; file {data.stat().st_size / parsed:.2f} x the parsed data"
        )
        print(f"peak memory: {peak / parsed:.2f} x the parsed data ({peak / 2**20:,.0f} MiB)")
        print(f"reading: {seconds['reading'] / seconds['all']:.1%} of {seconds['all']:.1f} s")
        if given.profile:
            for function, calls, share in profile(data, folder, options):
                print(f"{share:6.1%} in {calls:,} calls of {function}")


if __name__ == "__main__":
    main()
