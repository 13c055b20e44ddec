"""Past one machine: what a fit on a Dask cluster sends, holds and costs.

    python benchmarks/scale.py rounds                         rounds a second with trivial tasks
    python benchmarks/scale.py traffic [--workers 1 2 4] [--rows 100000 1000000 10000000]
                                                              bytes and rounds of a Newton step
    python benchmarks/scale.py memory [--rows 5000000 10000000 50000000] [--memory-limit 2GB]
                                                              data larger than the workers' memory, memory of the client
    python benchmarks/scale.py overhead [--rows 5000000] [--columns 50]
                                                              the cluster beside the solver for rows in memory
    TAUFPL_DATA=folder python benchmarks/scale.py recall [--splits 2] [--sets NAME ...]
                                                              TauFPLClassifier() on chunks beside rows in memory

All clusters are processes of this machine. Rows are normal, one in twenty positive and shifted. A part prints a table;
``--folder`` says where the files of ``memory`` go, four bytes a value.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import psutil
from distributed import Client, LocalCluster

from recall_data import SETS, recall as recall_of
from taufpl import TauFPLClassifier
from taufpl.estimators.remote import BlockTable
from taufpl.operators import FileRows, as_blocks, as_operator
from taufpl.operators.remote import divide
from taufpl.problem import RankingProblem
from taufpl.problem.remote import BlockRankingProblem
from taufpl.solvers import Newton, Result

TAU, REG = 0.01, 0.01
CHUNK_ROWS = 250_000


def chunk_labels(number: int, n_rows: int) -> np.ndarray:
    return np.random.default_rng((0, number)).random(n_rows) < 0.05


def chunk_rows(number: int, n_rows: int, n_columns: int) -> np.ndarray:
    """Normal rows in single precision, the means of the classes 4 standard deviations apart."""
    rng = np.random.default_rng((1, number))
    X = rng.standard_normal((n_rows, n_columns), dtype=np.float32)
    X[chunk_labels(number, n_rows)] += np.float32(4.0 / np.sqrt(n_columns))
    return X


def sizes(n_rows: int) -> list[int]:
    n_chunks = -(-n_rows // CHUNK_ROWS)
    return [n_rows // n_chunks + (i < n_rows % n_chunks) for i in range(n_chunks)]


def generated(n_rows: int, n_columns: int) -> tuple[da.Array, da.Array]:
    """Rows and labels that are made by the workers, chunk by chunk."""
    rows, labels = dask.delayed(chunk_rows, pure=True), dask.delayed(chunk_labels, pure=True)
    parts = list(enumerate(sizes(n_rows)))
    X = [da.from_delayed(rows(i, n, n_columns), (n, n_columns), meta=np.empty((0, 0), np.float32)) for i, n in parts]
    y = [da.from_delayed(labels(i, n), (n,), meta=np.empty(0, bool)) for i, n in parts]
    return da.concatenate(X), da.concatenate(y)


@contextmanager
def cluster(n_workers: int, memory_limit: str | None = None) -> Iterator[Client]:
    options: dict[str, Any] = {} if memory_limit is None else {"memory_limit": memory_limit}
    with (
        LocalCluster(
            processes=True, n_workers=n_workers, threads_per_worker=1, dashboard_address=":0", **options
        ) as made,
        Client(made) as client,
    ):
        yield client


@dataclass(frozen=True)
class Fit:
    """What one fit took."""

    result: Result
    seconds: float
    setup_seconds: float
    n_blocks: int
    sent: int
    received: int
    largest: int


def fit(X: Any, y: Any, tol: float, persist: bool | None = None) -> Fit:
    begin = time.perf_counter()
    with as_blocks(X, y, persist=persist) as blocks:
        divide(blocks, True)
        n, m = BlockTable.of(blocks).sizes
        ready = time.perf_counter()
        problem = BlockRankingProblem(blocks, m, n, int(TAU * n) + 1, REG)
        result = Newton(tol=tol).solve(problem)
        end = time.perf_counter()
        traffic = blocks.traffic
        return Fit(
            result,
            end - ready,
            ready - begin,
            blocks.n_blocks,
            traffic.sent,
            traffic.received,
            traffic.largest_received,
        )


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    print(f"| {' | '.join(header)} |")
    print(f"|{'---|' * len(header)}")
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |", flush=True)
    print()


def round_up(n_bytes: float) -> str:
    return f"{n_bytes / 1e3:,.1f} kB" if n_bytes < 1e6 else f"{n_bytes / 1e6:,.1f} MB"


def rounds(given: argparse.Namespace) -> None:
    """Milliseconds of a round in which nothing is done."""
    lines = []
    with cluster(2):
        for n_blocks in (4, 16, 64):
            X, y = da.zeros((n_blocks * 10, 20), chunks=(10, 20)), da.zeros(n_blocks * 10, chunks=10)
            with as_blocks(X, y, block_bytes=1) as blocks:
                divide(blocks, 1.0)
                for _ in range(3):
                    BlockTable.of(blocks)
                times, cpu = [], time.process_time()
                for _ in range(given.repeats):
                    begin = time.perf_counter()
                    BlockTable.of(blocks)
                    times.append(1e3 * (time.perf_counter() - begin))
                cpu = 1e3 * (time.process_time() - cpu) / given.repeats
                lines.append([n_blocks, f"{np.median(times):.1f}", f"{np.min(times):.1f}", f"{cpu:.1f}"])
    table(["blocks", "ms a round, median", "least", "ms of client and scheduler"], lines)


def traffic(given: argparse.Namespace) -> None:
    """Bytes between client and workers, rounds and passes, of a Newton step."""
    lines = []
    for n_workers in given.workers:
        with cluster(n_workers):
            for n_rows in given.rows or [100_000, 1_000_000, 10_000_000]:
                done = fit(*generated(n_rows, given.columns), tol=given.tol)
                result, steps = done.result, done.result.n_iter
                lines.append(
                    [
                        n_workers,
                        f"{n_rows:,}",
                        done.n_blocks,
                        steps,
                        f"{result.gap:.1e}",
                        f"{result.n_rounds / steps:.1f}",
                        f"{result.n_passes / steps:.2f}",
                        round_up(done.sent / steps),
                        round_up(done.received / steps),
                        round_up(done.largest),
                        f"{done.seconds / steps:.2f}",
                    ]
                )
    header = ["workers", "rows", "blocks", "steps", "gap", "rounds a step", "passes a step"]
    table([*header, "sent a step", "received a step", "largest message", "seconds a step"], lines)


def write_rows(path: Path, n_rows: int, n_columns: int) -> None:
    """An .npy file, written chunk by chunk."""
    with path.open("wb") as file:
        form = {"descr": "<f4", "fortran_order": False, "shape": (n_rows, n_columns)}
        np.lib.format.write_array_header_2_0(file, form)
        for number, size in enumerate(sizes(n_rows)):
            chunk_rows(number, size, n_columns).tofile(file)


def memory(given: argparse.Namespace) -> None:
    """Peak memory of the client's process, scheduler included, when rows are read from a file in every pass."""
    lines = []
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        for n_rows in given.rows or [5_000_000, 10_000_000, 50_000_000]:
            path = Path(folder, "X.npy")
            write_rows(path, n_rows, given.columns)
            line = [sys.executable, __file__, "one", "--path", str(path), "--memory-limit", given.memory_limit]
            line += ["--workers", *map(str, given.workers[:1]), "--tol", str(given.tol)]
            done = subprocess.run(line, capture_output=True, text=True, check=False)
            if done.returncode:
                sys.exit(done.stderr)
            found = json.loads(done.stdout.splitlines()[-1])
            lines.append(
                [
                    f"{n_rows:,}",
                    f"{n_rows * given.columns * 4 / 1e9:.1f} GB",
                    f"{found['before'] / 2**20:,.0f} MiB",
                    f"{(found['peak'] - found['before']) / 2**20:,.0f} MiB",
                    f"{found['gap']:.1e}",
                    found["steps"],
                    f"{found['passes']:.1f}",
                    f"{found['seconds']:.0f}",
                ]
            )
    print(f"{given.workers[0]} workers of {given.memory_limit} each, {given.columns} columns in single precision\n")
    table(["rows", "file", "client before", "client gains at most", "gap", "steps", "passes", "seconds"], lines)


def one(given: argparse.Namespace) -> None:
    """One fit from a file, in a process of its own."""
    rows = FileRows.from_npy(given.path)
    n_rows = rows.shape[0]
    cuts = tuple(sizes(n_rows))
    with cluster(given.workers[0], given.memory_limit):
        watch = Watch()
        X = da.from_array(rows, chunks=(cuts, rows.shape[1]))
        done = fit(X, generated(n_rows, 1)[1], given.tol, persist=False)
        found = {"before": watch.before, "peak": watch.end(), "gap": done.result.gap, "steps": done.result.n_iter}
        print(json.dumps({**found, "passes": done.result.n_passes, "seconds": done.seconds}))


class Watch(threading.Thread):
    """The most memory that this process has held since then, looked at twenty times a second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.process, self.over = psutil.Process(), threading.Event()
        self.before = self.peak = self.process.memory_info().rss
        self.start()

    def run(self) -> None:
        while not self.over.wait(0.05):
            self.peak = max(self.peak, self.process.memory_info().rss)

    def end(self) -> int:
        self.over.set()
        self.join()
        return self.peak


def overhead(given: argparse.Namespace) -> None:
    """Dask on this machine beside Newton on the same rows in memory, to the same gap."""
    n_rows = (given.rows or [5_000_000])[0]
    cuts = sizes(n_rows)
    X = np.concatenate([chunk_rows(i, n, given.columns) for i, n in enumerate(cuts)])
    y = np.concatenate([chunk_labels(i, n) for i, n in enumerate(cuts)])
    positive, negative = np.flatnonzero(y), np.flatnonzero(~y)
    problem = RankingProblem(as_operator(X), positive, negative, int(TAU * len(negative)) + 1, REG)
    begin = time.perf_counter()
    own = Newton(tol=given.tol).solve(problem)
    own_seconds = time.perf_counter() - begin
    del X, problem
    n_workers = os.cpu_count() or 1
    with cluster(n_workers):
        done = fit(*generated(n_rows, given.columns), tol=given.tol)
    result = done.result
    print(f"{n_rows:,} x {given.columns}, {n_workers} workers, objectives {own.primal:.6f} and {result.primal:.6f}\n")
    table(
        ["solver", "seconds", "times Newton", "steps", "passes", "rounds"],
        [
            ["Newton, rows in memory", f"{own_seconds:.1f}", "1", own.n_iter, f"{own.n_passes:.1f}", ""],
            [
                "blocks on Dask",
                f"{done.seconds:.1f}",
                f"{done.seconds / own_seconds:.1f}",
                result.n_iter,
                f"{result.n_passes:.1f}",
                result.n_rounds,
            ],
            [
                "their rows and labels",
                f"{done.setup_seconds:.1f}",
                f"{done.setup_seconds / own_seconds:.1f}",
                "",
                "",
                "",
            ],
        ],
    )


def recall(given: argparse.Namespace) -> None:
    """Recall at 1 % on rows that no fit has seen, and seconds of the processor: sets of `recall_data.py`."""
    rows, results = [], []
    for name in given.sets:
        found = []
        for split in range(given.splits):
            data = SETS[name].draw(split, False)
            if data is None:
                break
            X = data.X.toarray() if hasattr(data.X, "toarray") else np.asarray(data.X)
            chunks = da.from_array(X, chunks=(-(-len(X) // 3), -1))
            own = []
            for kind, given_rows in (("auto", X), ("auto", chunks), ("paper", chunks)):
                began = time.process_time()
                model = TauFPLClassifier(0.01, ranking=kind, threshold="train").fit(given_rows, data.y)
                own.append((recall_of(data.X_test @ model.coef_[0], data.y_test, 0.01), time.process_time() - began))
            found.append(own)
        if found:
            results.append(np.mean(found, axis=0))
            shares, seconds = results[-1].T
            rows.append([name, *(f"{share:.3f}" for share in shares), *(f"{s:.1f}" for s in seconds)])
            print(rows[-1], file=sys.stderr)
    shares, seconds = np.mean(results, axis=0).T
    rows.append(["mean", *(f"{share:.4f}" for share in shares), *(f"{s:.1f}" for s in seconds)])
    kinds = ("in memory", "chunks", "chunks, paper's rankings")
    table(["set", *(f"recall, {kind}" for kind in kinds), *(f"s, {kind}" for kind in kinds)], rows)


PARTS = {"rounds": rounds, "traffic": traffic, "memory": memory, "overhead": overhead, "recall": recall, "one": one}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--rows", type=int, nargs="+")
    parser.add_argument("--columns", type=int, help="20, or 50 for overhead")
    parser.add_argument("--workers", type=int, nargs="+", help="1 2 4 for traffic, 2 for memory")
    parser.add_argument("--memory-limit", default="2GB")
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--folder")
    parser.add_argument("--path", type=Path)
    given = parser.parse_args()
    given.columns = given.columns or (50 if given.part == "overhead" else 20)
    given.workers = given.workers or ([1, 2, 4] if given.part == "traffic" else [2])
    PARTS[given.part](given)


if __name__ == "__main__":
    main()
