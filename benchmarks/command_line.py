"""What the command takes: to start, and to fit on a large CSV file.

    python benchmarks/command_line.py start [--repeats 7]
    python benchmarks/command_line.py fit [--rows 1000000] [--columns 50] [--options "--model linear"] [--profile]

``start``: CPU seconds of processes that show help or import the package, the least of some rounds in turns, beside one
that imports scikit-learn.

``fit``: peak memory is that of the whole process, as a multiple of the parsed data: rows times columns times eight
bytes. With ``--profile`` it is run once more, and the functions with the most own time are listed.
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
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

BLOCK = 50_000


def write_data(path: Path, n_rows: int, n_columns: int) -> None:
    """Numbers of six digits, one row in twenty positive, and shifted by half a standard deviation in ten columns."""
    rng = np.random.default_rng(0)
    names = [f"x{place}" for place in range(n_columns)]
    writer = None
    for start in range(0, n_rows, BLOCK):
        rows = min(BLOCK, n_rows - start)
        y = (rng.random(rows) < 0.05).astype(np.int64)
        X = rng.normal(size=(rows, n_columns))
        X[:, :10] += 0.5 * y[:, np.newaxis]
        table = pa.table({**{name: np.round(X[:, place], 5) for place, name in enumerate(names)}, "y": y})
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("start", "fit"), nargs="?", default="fit")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--options", default="")
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args()
    if given.part == "start":
        start(given.repeats)
        return
    options = shlex.split(given.options)
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
