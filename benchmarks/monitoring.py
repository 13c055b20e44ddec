"""How soon a monitor finds a rate above its tolerance, with and without a good past, and how often it is wrong.

    python benchmarks/monitoring.py [--quick] [--runs 400]

Flags are drawn from known rates. Delays are counts of negatives after the rate has risen, of both alarms of
`FPRMonitor`; nothing is timed. Prints Markdown.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from taufpl.monitoring import FPRMonitor, SegmentMonitor

TAU, DELTA = 0.01, 0.05
GOOD = 0.8  # the rate of the good past, in tau
PASTS = (0, 1_000, 10_965, 100_000)
RISES = (1.1, 1.25, 1.5, 2.0, 2.5, 4.0, 10.0)
SEED = 15
# How long a run goes on at most; a run without an alarm counts as this long, which medians do not mind.
LONGEST = 400_000
STEP = 2_000
# Small rises take long: an eighth of the runs.
SMALL = 1.25


def delays(rng: np.random.Generator, past: int, rise: float) -> tuple[int, int]:
    """Negatives from the rise to the alarm of the test, and to the signal of the change detector."""
    monitor = FPRMonitor(TAU, DELTA)
    monitor.update(rng.random(past) < GOOD * TAU)
    if monitor.alarm or monitor.change:  # a false one, which is counted elsewhere
        return delays(rng, past, rise)
    while not (monitor.alarm and monitor.change) and monitor.n_seen < past + LONGEST:
        monitor.update(rng.random(STEP) < rise * TAU)
    return (monitor.alarm_at or past + LONGEST) - past, (monitor.change_at or past + LONGEST) - past


def delay_table(rng: np.random.Generator, n_runs: int) -> Iterator[str]:
    yield f"| rate after the rise | {' | '.join(f'past of {past:,}' for past in PASTS)} |"
    yield "|---" * (1 + len(PASTS)) + "|"
    for rise in RISES:
        cells = []
        for past in PASTS:
            runs = n_runs if rise > SMALL else max(20, n_runs // 8)
            found = np.array([delays(rng, past, rise) for _ in range(runs)])
            test, change = np.median(found, axis=0)
            cells.append(f"{_count(test)} / {_count(change)}")
        yield f"| {rise:g} tau | {' | '.join(cells)} |"


def _count(value: float) -> str:
    return f"over {LONGEST:,}" if value >= LONGEST else f"{value:,.0f}"


def wrong_table(rng: np.random.Generator, n_runs: int) -> Iterator[str]:
    """Runs with a false alarm among the first negatives."""
    looks = (10_000, 100_000, 500_000)
    yield f"| rate | {' | '.join(f'first {n:,}' for n in looks)} |"
    yield "|---" * (1 + len(looks)) + "|"
    for share in (0.6, 0.8, 0.9, 1.0):
        alarms, changes = [], []
        for _ in range(n_runs):
            monitor = FPRMonitor(TAU, DELTA)
            monitor.update(rng.random(looks[-1]) < share * TAU)
            alarms.append(monitor.alarm_at or np.inf)
            changes.append(monitor.change_at or np.inf)
        cells = [f"{np.mean(np.array(alarms) <= n):.3f} / {np.mean(np.array(changes) <= n):.3f}" for n in looks]
        yield f"| {share:g} tau | {' | '.join(cells)} |"


def run_length_table(rng: np.random.Generator, n_runs: int) -> Iterator[str]:
    """Mean number of negatives to a false signal at the rate tau, and the delay at 2.5 tau without a past."""
    yield "| run_length | negatives to a false signal, mean ± standard error | delay at 2.5 tau, median |"
    yield "|---|---|---|"
    for allowed in (20, 100, 500, 5_000, 50_000):
        run_length = allowed / TAU
        false = np.array([_first_change(rng, run_length, 1.0) for _ in range(n_runs)]) if allowed <= 500 else None
        late = [_first_change(rng, run_length, 2.5) for _ in range(n_runs)]
        mean = "" if false is None else f"{false.mean():,.0f} ± {false.std() / np.sqrt(n_runs):,.0f}"
        yield f"| {run_length:,.0f} | {mean} | {np.median(late):,.0f} |"


def _first_change(rng: np.random.Generator, run_length: float, rise: float) -> int:
    monitor = FPRMonitor(TAU, DELTA, run_length)
    while monitor.change_at is None:
        monitor.update(rng.random(STEP) < rise * TAU)
    return monitor.change_at


def within_table(rng: np.random.Generator, n_runs: int) -> Iterator[str]:
    """Negatives until the verdict is "within"."""
    yield "| rate | negatives until within: median, 90 % of runs |"
    yield "|---|---|"
    for share in (0.0, 0.25, 0.5, 0.7, 0.8):
        found = []
        for _ in range(max(20, n_runs // 4)):
            monitor = FPRMonitor(TAU, DELTA)
            while monitor.verdict != "within" and monitor.n_seen < LONGEST:
                monitor.update(rng.random(100 if share < 0.7 else 500) < share * TAU)
            found.append(monitor.n_seen)
        yield f"| {share:g} tau | {np.median(found):,.0f}, {np.quantile(found, 0.9):,.0f} |"


# Shares of the rows of five segments; the fourth is the one that goes bad.
SEGMENTS = {"a": 0.5, "b": 0.3, "c": 0.1, "d": 0.05, "e": 0.05}


def _segments(rng: np.random.Generator, n: int) -> NDArray[np.str_]:
    return rng.choice([*SEGMENTS], n, p=[*SEGMENTS.values()])


def segment_wrong_table(rng: np.random.Generator, n_runs: int) -> Iterator[str]:
    """Runs with any false alarm, where every segment has exactly the rate that its tolerance allows."""
    taus, n = {"a": 0.01, "b": 0.02, "c": 0.05, "d": 0.1, "e": 0.2}, 50_000
    yield f"| segments | any alarm among the first {n:,} | any change |"
    yield "|---|---|---|"
    for name, known in (("known beforehand", SEGMENTS), ("as they come", None)):
        alarms, changes = [], []
        for _ in range(n_runs):
            watch, segment = SegmentMonitor(taus, DELTA, segments=known), _segments(rng, n)
            watch.update(rng.random(n) < np.array([taus[each] for each in segment.tolist()]), segment)
            alarms.append(watch.alarm)
            changes.append(watch.change)
        yield f"| {name} | {np.mean(alarms):.3f} | {np.mean(changes):.3f} |"


def segment_delay_table(rng: np.random.Generator, n_runs: int) -> Iterator[str]:
    """Negatives of all segments until a rise in one segment of 5 % of the rows is found, by either alarm."""
    longest = LONGEST // 4
    yield "| rate in the segment | monitor of the whole | monitor by segment |"
    yield "|---|---|---|"
    for rise in (2.5, 4.0, 10.0):
        found: list[tuple[int, int]] = []
        for _ in range(max(20, n_runs // 8)):
            whole, parts = FPRMonitor(TAU, DELTA), SegmentMonitor(TAU, DELTA, segments=SEGMENTS)
            at = dict.fromkeys(("whole", "parts"), longest)
            for n_seen in range(STEP, longest, STEP):
                segment = _segments(rng, STEP)
                flags = rng.random(STEP) < np.where(segment == "d", rise, GOOD) * TAU
                whole.update(flags)
                parts.update(flags, segment)
                for name, watch in (("whole", whole), ("parts", parts)):
                    if watch.alarm or watch.change:
                        at[name] = min(at[name], n_seen)
                if max(at.values()) < longest:
                    break
            found.append((at["whole"], at["parts"]))
        cells = [f"over {longest:,}" if each >= longest else f"{each:,.0f}" for each in np.median(found, axis=0)]
        yield f"| {rise:g} tau | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--quick", action="store_true", help="twenty runs")
    given = parser.parse_args()
    n_runs = 20 if given.quick else given.runs
    rng = np.random.default_rng(SEED)
    print(f"tau = {TAU}, delta = {DELTA}, {n_runs} runs a cell, a good past at {GOOD:g} tau\n")
    tables = {
        "Delay in negatives: test over all negatives / change detector, medians": delay_table,
        "Share of runs with a false alarm: test / change detector": wrong_table,
        "The change detector by its run length": run_length_table,
        "Until the rate is provably within the tolerance": within_table,
        "By segment: share of runs with a false alarm, whole or segment, at the tolerance itself": segment_wrong_table,
        f"By segment: delay, the other segments at {GOOD:g} tau": segment_delay_table,
    }
    for title, table in tables.items():
        print(f"### {title}\n")
        for line in table(rng, n_runs):
            print(line, flush=True)
        print()


if __name__ == "__main__":
    main()
