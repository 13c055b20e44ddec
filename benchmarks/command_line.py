"""Memory and time of ``taufpl fit`` on a large CSV file.

    python benchmarks/command_line.py [--rows 1000000] [--columns 50] [--options "--model linear"] [--profile]

Peak memory is that of the whole process, as a multiple of the parsed data: rows times columns times eight bytes. With
``--profile`` the time is divided between our Python code and everything else, compiled code and other libraries.
"""

import argparse
import cProfile
import json
import pstats
import resource
import shlex
import subprocess
import sys
import tempfile
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
    line = [sys.executable, "-m", "taufpl.cli", "fit", str(path), "--target", "y", "-o", str(folder / "m.skops")]
    done = subprocess.run([*line, *options, "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024.0


def profile(path: Path, folder: Path, options: list[str]) -> dict[str, float]:
    """Shares of the time: our own Python code, other Python code, and compiled code."""
    from taufpl.cli._app import run

    profiler = cProfile.Profile()
    profiler.enable()
    run(["fit", str(path), "--target", "y", "-o", str(folder / "m.skops"), *options, "--json"])
    profiler.disable()
    shares = {"our Python": 0.0, "other Python": 0.0, "compiled": 0.0}
    for (file, _, _), (_, _, own, _, _) in pstats.Stats(profiler).stats.items():
        kind = "compiled" if file == "~" else "our Python" if "taufpl" in file else "other Python"
        shares[kind] += own
    total = sum(shares.values())
    return {kind: seconds / total for kind, seconds in shares.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--options", default="")
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args()
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
            for kind, share in profile(data, folder, options).items():
                print(f"{kind}: {share:.1%}")


if __name__ == "__main__":
    main()
