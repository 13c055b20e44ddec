"""Sets, splits and the measure of the comparisons of recall: `recall.py` and `screening.py`.

Files are read from the folder in TAUFPL_DATA: `NAME.npz`, a SciPy CSR matrix with the labels (-1/+1) under the key `y`
in the same file. Digits and breast cancer come with scikit-learn.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_digits, make_classification
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from taufpl.thresholding import share_above

N_SPLITS, N_SPLITS_LARGE = 5, 3
DIGITS, BREAST_CANCER, PARTLY = "digits, 8", "breast cancer", "partly separable"


class Split(NamedTuple):
    """Rows to learn from and rows to judge on; positives are 1."""

    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray


class Source(NamedTuple):
    """Where the splits of a set come from: a function of the number of the split and of quick."""

    draw: Callable[[int, bool], Split | None]
    n_splits: int = N_SPLITS
    # Whether the path over the training share is affordable.
    has_path: bool = True


def read(name: str) -> tuple[Any, np.ndarray] | None:
    """Rows and labels (0/1) of a bundled set or of a file; None where the file is not there."""
    if name == DIGITS:
        X, y = load_digits(return_X_y=True)
        return X, (y == 8).astype(int)
    if name == BREAST_CANCER:
        X, y = load_breast_cancer(return_X_y=True)
        return X, (y == 0).astype(int)
    path = Path(os.environ.get("TAUFPL_DATA", "")) / f"{name}.npz"
    if "TAUFPL_DATA" not in os.environ or not path.is_file():
        return None
    return sp.load_npz(path).tocsr(), (np.load(path)["y"] > 0).astype(int)


def divided(X: Any, y: np.ndarray, split: int, train_size: float | int = 2 / 3) -> Split:
    parts = train_test_split(X, y, train_size=train_size, stratify=y, random_state=split)
    return Split(parts[0], parts[2], parts[1], parts[3])


def file(
    name: str, change: Callable[[np.ndarray], np.ndarray] | None = None, train_size: float | int = 2 / 3, **kwargs: Any
) -> Source:
    def draw(split: int, quick: bool) -> Split | None:
        data = read(name)
        if data is None:
            return None
        X = data[0] if change is None else change(data[0].toarray())
        return divided(X, data[1], split, 3_000 if quick else train_size)

    return Source(draw, **kwargs)


def digits(split: int, quick: bool) -> Split:
    X, y = read(DIGITS)
    return divided(X / 16.0, y, split)


def breast_cancer(split: int, quick: bool) -> Split:
    parts = divided(*read(BREAST_CANCER), split)
    scaler = StandardScaler().fit(parts.X)
    return parts._replace(X=scaler.transform(parts.X), X_test=scaler.transform(parts.X_test))


def forest_like(split: int, quick: bool) -> Split:
    """As many features as there are in forest cover types, a fifth of them of use, three clusters a class."""
    n_train, n_test = (2_000, 20_000) if quick else (5_000, 66_000)
    X, y = make_classification(
        n_train + n_test,
        n_features=54,
        n_informative=10,
        n_clusters_per_class=3,
        weights=[0.8],
        flip_y=0.01,
        class_sep=1.5,
        random_state=split,
    )
    return divided(X, y, split, n_train)


Classes = tuple[np.ndarray, np.ndarray]
Family = Callable[[np.random.Generator, int, int], Classes]


def generated(family: Family) -> Source:
    def draw(split: int, quick: bool) -> Split:
        rng = np.random.default_rng(split)
        sizes = ((1_600, 400), (20_000, 2_000)) if quick else ((4_000, 1_000), (60_000, 6_000))
        parts = []
        for n, m in sizes:
            X, y = np.vstack(family(rng, n, m)), np.repeat([0, 1], [n, m])
            if family is noisy:
                flipped = rng.random(n + m) < 0.02
                y = np.where(flipped, 1 - y, y)
            order = rng.permutation(n + m)
            parts += [X[order], y[order]]
        return Split(*parts)

    return Source(draw)


def clouds(rng: np.random.Generator, n: int, m: int, d: int = 20) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two standard normal clouds, and a unit vector along the first four axes."""
    direction = np.zeros(d)
    direction[:4] = 0.5
    return rng.normal(size=(n, d)), rng.normal(size=(m, d)), direction


def gaussians(rng: np.random.Generator, n: int, m: int) -> Classes:
    negatives, positives, u = clouds(rng, n, m)
    return negatives, positives + 1.3 * u


def partly(rng: np.random.Generator, n: int, m: int) -> Classes:
    """3 of 10 positives lie far out along one axis; the others lie where a seventh of the negatives lies too."""
    negatives, positives, u = clouds(rng, n, m)
    among = np.roll(u, 1)
    far = rng.random(m) < 0.3
    positives[far, 0] += 4.5
    positives[~far] += 4.0 * among
    mixed = rng.random(n) < 0.15
    negatives[mixed] += 4.5 * among
    negatives[~mixed] -= among
    return negatives, positives


def partly_aside(rng: np.random.Generator, n: int, m: int) -> Classes:
    """3 of 10 positives lie far out along one axis; the others a little aside along another."""
    negatives, positives, u = clouds(rng, n, m)
    far = rng.random(m) < 0.3
    positives[far, 5] += 5.0
    positives[~far] += 1.6 * u
    return negatives, positives


def clusters(rng: np.random.Generator, n: int, m: int) -> Classes:
    negatives, positives, _ = clouds(rng, n, m)
    positives[np.arange(m), rng.integers(0, 4, m)] += 3.0
    return negatives, positives


def tails(rng: np.random.Generator, n: int, m: int) -> Classes:
    negatives, positives, u = clouds(rng, n, m)
    lengths = [np.sqrt(2.0 / rng.chisquare(2, size=(count, 1))) for count in (n, m)]
    return negatives * lengths[0], positives * lengths[1] + 7.0 * u


def noisy(rng: np.random.Generator, n: int, m: int) -> Classes:
    negatives, positives, u = clouds(rng, n, m)
    return negatives, positives + 3.0 * u


def irrelevant(rng: np.random.Generator, n: int, m: int) -> Classes:
    negatives, positives, u = clouds(rng, n, m, 120)
    return negatives, positives + 2.0 * u


def unequal(rng: np.random.Generator, n: int, m: int) -> Classes:
    negatives, positives, u = clouds(rng, n, m)
    scales = np.linspace(0.4, 1.6, u.size)
    return negatives * scales[::-1], (positives + 1.5 * u) * scales


SETS: dict[str, Source] = {
    "spambase": file("spambase", lambda X: X),
    "spambase, log1p": file("spambase", np.log1p),
    "phishing": file("phishing", n_splits=N_SPLITS_LARGE),
    "a9a": file("a9a", train_size=10_000, n_splits=N_SPLITS_LARGE),
    "w8a": file("w8a", train_size=10_000, n_splits=N_SPLITS_LARGE),
    DIGITS: Source(digits),
    BREAST_CANCER: Source(breast_cancer),
    "forest-like": Source(forest_like),
    "Gaussians": generated(gaussians),
    PARTLY: generated(partly),
    "partly separable, rest aside": generated(partly_aside),
    "four clusters": generated(clusters),
    "Student t, 2 dof": generated(tails),
    "2 % of labels wrong": generated(noisy),
    "100 irrelevant features": generated(irrelevant),
    "unequal covariances": generated(unequal),
}


def recall(scores: np.ndarray, y: np.ndarray, tau: float) -> float:
    """Share of the positives above the (floor(tau n) + 1)-th largest score of the n negatives."""
    return share_above(scores[y == 1], scores[y == 0], tau)


def standard_error(values: np.ndarray) -> float:
    # No smaller than rounding, so that equals are within it.
    return max(float(values.std(ddof=1) / math.sqrt(values.size)), 1e-12) if values.size > 1 else math.nan


def short(value: float) -> str:
    return f"{value:.3f}".removeprefix("0")
