"""How often `ScreeningClassifier` breaks a tolerance, and whether the recall that it reports is true.

    python benchmarks/screening_guarantee.py [--quick] [--draws 400] [--jobs 1] [--cache folder]

Every draw is a fresh table with curved boundaries between the classes, numbers, whole numbers, categories, truth values
and missing values. Under threshold="np" the true false-alarm rate is measured on 50,000 fresh negatives of each draw,
and the true recall on 10,000 fresh positives. A draw is kept in the cache as soon as it is there. Prints Markdown.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from scipy import stats
from threadpoolctl import threadpool_limits

from recall_data import standard_error
from taufpl import ScreeningClassifier

DELTA = 0.05
N_NEGATIVE, N_POSITIVE = 50_000, 10_000
SEED = 17
COUNTRIES = ["at", "be", "ch", "de", "es", "fr"]


class Cell(NamedTuple):
    """Sizes of a training table and the tolerance."""

    n: int
    m: int
    tau: float
    effort: str = "fast"

    @property
    def name(self) -> str:
        return f"{self.n}-{self.m}-{self.tau:g}-{self.effort}"


CELLS = (Cell(700, 150, 0.05), Cell(1_000, 100, 0.05))


def table(rng: np.random.Generator, n: int, *, positive: bool) -> pd.DataFrame:
    """Rows of one class: most positives lie on a ring, at night, in a band of amounts; a fifth are like negatives."""
    is_typical = (rng.random(n) < 0.8) & positive
    angle, radius = rng.uniform(0, 2 * np.pi, n), rng.normal(2.2, 0.35, n)
    plane = np.where(is_typical, radius * np.array([np.cos(angle), np.sin(angle)]), rng.normal(size=(2, n)))
    hour = np.where(is_typical, rng.normal(1.0, 3.0, n), rng.normal(14.0, 5.0, n)).round() % 24
    amount = np.exp(np.where(is_typical, rng.normal(4.0, 0.4, n), rng.normal(3.5, 1.2, n))).round(2)
    age = rng.normal(45, 15, n).round()
    age[rng.random(n) < np.where(is_typical, 0.3, 0.1)] = np.nan
    shares = [0.30, 0.25, 0.20, 0.15, 0.06, 0.04], [0.10, 0.15, 0.20, 0.10, 0.25, 0.20]
    countries = [rng.choice(COUNTRIES, size=n, p=share) for share in shares]
    return pd.DataFrame(
        {
            "east": plane[0],
            "north": plane[1],
            "hour": hour.astype(int),
            "amount": amount,
            "age": age,
            "orders": rng.poisson(np.where(is_typical, 1.0, 2.5)),
            "country": pd.Categorical(np.where(is_typical, countries[1], countries[0]), categories=COUNTRIES),
            "is_new": rng.random(n) < np.where(is_typical, 0.6, 0.2),
        }
    )


def screen_rates(cell: Cell, number: int) -> dict[str, float]:
    """True rates of a screen of a fresh table, and the recall that it reports."""
    rng = np.random.default_rng([SEED, cell.n, cell.m, number])
    X = pd.concat([table(rng, cell.n, positive=False), table(rng, cell.m, positive=True)], ignore_index=True)
    screen = ScreeningClassifier(
        cell.tau,
        delta=DELTA,
        threshold="np",
        effort=cell.effort,
        candidates=["boosting", "forest", "extra trees"],
        random_state=number,
    ).fit(X, np.repeat([0, 1], [cell.n, cell.m]))
    evidence = screen.evidence_
    assert evidence.guaranteed
    low, high = evidence.tpr_interval
    return {
        "fpr": float(np.mean(screen.predict(table(rng, N_NEGATIVE, positive=False)))),
        "recall": float(np.mean(screen.predict(table(rng, N_POSITIVE, positive=True)))),
        "reported": evidence.tpr_estimate,
        "low": low,
        "high": high,
        "n_held_out": evidence.n_negative,
        "rank": evidence.rank,
    }


def draw(cell: Cell, number: int, cache: Path) -> dict[str, float]:
    """The rates of a draw, from the cache where it has them."""
    path = cache / f"{cell.name}-{number}.json"
    if not path.exists():
        warnings.simplefilter("ignore")
        with threadpool_limits(1):
            found = screen_rates(cell, number)
        beside = path.with_suffix(".part")
        beside.write_text(json.dumps(found))
        beside.replace(path)
    return json.loads(path.read_text())


def report(cell: Cell, draws: pd.DataFrame) -> str:
    broken, bias = (draws.fpr > cell.tau).to_numpy(float), (draws.reported - draws.recall).to_numpy()
    held_out, rank = int(draws.n_held_out[0]), int(draws["rank"][0])
    exact = stats.beta.sf(cell.tau, held_out + 1 - rank, rank)
    is_inside = ((draws.low <= draws.recall) & (draws.recall <= draws.high)).to_numpy(float)
    cells = [
        f"{cell.n} + {cell.m}, {cell.tau:g}, {cell.effort}",
        str(held_out),
        f"{exact:.3f}",
        f"{broken.mean():.3f} ± {standard_error(broken):.3f}",
        f"{draws.fpr.mean():.4f}",
        f"{draws.recall.mean():.3f}",
        f"{bias.mean():+.3f} ± {standard_error(bias):.3f}",
        f"{is_inside.mean():.3f} ± {standard_error(is_inside):.3f}",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two draws of one cell")
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--jobs", type=int, default=1, help="draws at a time")
    parser.add_argument("--cache", type=Path, default=Path("benchmarks/out/screening_guarantee"))
    given = parser.parse_args()
    cells, n_draws = (CELLS[:1], 2) if given.quick else (CELLS, given.draws)
    given.cache.mkdir(parents=True, exist_ok=True)
    columns = [
        "held out",
        "P(FPR > tau), exact",
        "measured",
        "mean FPR",
        "recall",
        "reported - true",
        "in the interval",
    ]
    print(f"| negatives + positives, tau, effort | {' | '.join(columns)} |\n" + "|---" * (len(columns) + 1) + "|")
    for cell in cells:
        found = Parallel(given.jobs)(delayed(draw)(cell, number, given.cache) for number in range(n_draws))
        print(report(cell, pd.DataFrame(found)), flush=True)


if __name__ == "__main__":
    main()
