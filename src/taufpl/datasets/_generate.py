"""Generated data: repeated rows, tables and texts."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.utils import indexable

from taufpl._checks import check_count
from taufpl._sklearn import safe_indexing
from taufpl._types import Array

Seed = int | np.random.Generator | np.random.RandomState | None


def upsample(X: Any, y: Any, factor: int, *, random_state: Seed = None) -> tuple[Any, Any]:
    """Repeat all rows `factor` times.

    Means over the positives, and over the highest k of the n negatives, stay what they were if k grows with n: a
    ranking problem keeps its optimum and its best reg. (At one tau, k = floor(tau n) + 1 grows a little less.) With
    this, the paper measures how training time grows with the number of rows alone.

    Parameters
    ----------
    X : array-like, sparse matrix or frame of shape (n_samples, n_features)
        Features.
    y : array-like of shape (n_samples,)
        Labels.
    factor : int
        Number of copies of each row, at least 1.
    random_state : int, Generator or RandomState, default=None
        Shuffles the rows. If None they come copy after copy, in the order of X.

    Returns
    -------
    X, y
        Of the same kinds as the arguments, with ``factor * n_samples`` rows; sparse matrices become CSR.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl.datasets import upsample
    >>> X, y = upsample(np.array([[1.0], [2.0]]), np.array([0, 1]), 3)
    >>> X.ravel().tolist(), y.tolist()
    ([1.0, 2.0, 1.0, 2.0, 1.0, 2.0], [0, 1, 0, 1, 0, 1])
    """
    factor = check_count("factor", factor, least=1)
    X, y = indexable(X, y)
    n_samples = X.shape[0] if hasattr(X, "shape") else len(X)
    rows = np.tile(np.arange(n_samples), factor)
    if random_state is not None:
        as_generator(random_state).shuffle(rows)
    return safe_indexing(X, rows), safe_indexing(y, rows)


def make_screening(
    n_negative: int, n_positive: int, *, n_features: int = 20, random_state: Seed = None
) -> tuple[Array, Array]:
    """A screening job on which accuracy and a small false-positive rate ask for different rankings.

    Features are standard normal. Half of the positives stand out by 2.5 in features 0 to 2. The others are shifted by
    2 in features 3 to 6, where 15 % of the negatives are shifted by 2.25 and the rest by -0.5: they can only be found
    at the price of many false alarms.

    Parameters
    ----------
    n_negative, n_positive : int
        Numbers of rows of the two classes; negatives come first.
    n_features : int, default=20
        At least 7; those after the seventh are noise.
    random_state : int, Generator or RandomState, default=None
        Seed, or source of random numbers.

    Returns
    -------
    X : ndarray of shape (n_negative + n_positive, n_features)
    y : ndarray of int
        0 and 1.

    Examples
    --------
    >>> from taufpl.datasets import make_screening
    >>> X, y = make_screening(n_negative=900, n_positive=100, random_state=0)
    >>> X.shape, int(y.sum())
    ((1000, 20), 100)
    """
    counts = [check_count("n_negative", n_negative, least=1), check_count("n_positive", n_positive, least=1)]
    rng = as_generator(random_state)
    y = np.repeat([0, 1], counts)
    X = rng.normal(size=(y.size, check_count("n_features", n_features, least=7)))
    kind = rng.random(y.size)
    X[np.ix_((y == 1) & (kind < 0.5), range(3))] += 2.5
    X[np.ix_((y == 1) & (kind >= 0.5), range(3, 7))] += 2.0
    X[np.ix_((y == 0) & (kind < 0.15), range(3, 7))] += 2.25
    X[np.ix_((y == 0) & (kind >= 0.15), range(3, 7))] -= 0.5
    return X, y


def make_scaling(
    n_samples: int,
    n_features: int = 50,
    *,
    positive_share: float = 0.1,
    separation: float = 2.0,
    density: float = 1.0,
    random_state: Seed = None,
) -> tuple[Any, Array]:
    """Rows in any number, dense or sparse, whose best linear ranking is known.

    Dense rows are standard normal, and positives are shifted by ``separation`` along a unit vector w of entries
    +-1/sqrt(n_features). Ranking by w is the best there is, and reaches recall::

        Phi(separation - z),  Phi(z) = 1 - tau

    at a false-positive rate of tau. Sparse rows hold one entry in each of ``density * n_features`` strips of
    neighbouring columns, scaled so that the mean and the variance along w are the same on average; their recall is
    a little less.

    Parameters
    ----------
    n_samples : int
        Number of rows, at least 2.
    n_features : int, default=50
        Number of columns.
    positive_share : float, default=0.1
        Share of positives, rounded to a whole number of rows but leaving at least one of each class.
    separation : float, default=2.0
        Distance of the two means, in standard deviations.
    density : float, default=1.0
        Share of entries that are stored. 1 gives an ndarray, less gives a CSR matrix.
    random_state : int, Generator or RandomState, default=None
        Seed, or source of random numbers.

    Returns
    -------
    X : ndarray or csr_matrix of shape (n_samples, n_features)
    y : ndarray of int
        0 and 1, in random order.

    Examples
    --------
    >>> from taufpl.datasets import make_scaling
    >>> X, y = make_scaling(1000, positive_share=0.2, random_state=0)
    >>> X.shape, int(y.sum())
    ((1000, 50), 200)
    >>> X, y = make_scaling(1000, 10_000, density=0.01, random_state=0)
    >>> X.shape, X.nnz
    ((1000, 10000), 100000)
    """
    n_samples, n_features = check_count("n_samples", n_samples, least=2), check_count("n_features", n_features, least=1)
    density = _check_share("density", density)
    rng = as_generator(random_state)
    y = random_labels(rng, n_samples, positive_share)
    shift = separation * rng.choice([-1.0, 1.0], size=n_features) / np.sqrt(n_features)
    if density < 1.0:
        return _sparse_rows(rng, y, shift, max(round(density * n_features), 1)), y
    X = rng.normal(size=(n_samples, n_features))
    X[y == 1] += shift
    return X, y


def _sparse_rows(rng: np.random.Generator, y: Array, shift: Array, n_stored: int) -> Any:
    """Rows with one entry in each strip of columns, so that columns are distinct and in order without a sort."""
    edges = np.linspace(0, shift.size, n_stored + 1).astype(np.int64)
    width = np.diff(edges)
    columns = edges[:-1] + (rng.random((y.size, n_stored)) * width).astype(np.int64)
    # A column is stored in one row of `width`: these factors keep the mean and the variance of a dense row.
    values = np.sqrt(width) * rng.normal(size=columns.shape) + y[:, np.newaxis] * width * shift[columns]
    starts = np.arange(0, values.size + 1, n_stored)
    return csr_matrix((values.ravel(), columns.ravel(), starts), shape=(y.size, shift.size))


def random_labels(rng: np.random.Generator, n_samples: int, positive_share: float) -> Array:
    """0 and 1 in random order, at least one of each."""
    n_positive = min(max(round(_check_share("positive_share", positive_share) * n_samples), 1), n_samples - 1)
    return rng.permutation(np.repeat([1, 0], [n_positive, n_samples - n_positive]))


def as_generator(random_state: Seed) -> np.random.Generator:
    """The source of random numbers that a seed stands for."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1, size=4))
    return np.random.default_rng(random_state)


def _check_share(name: str, value: Any) -> float:
    share = float(value)
    if not 0 < share <= 1:
        raise ValueError(f"{name} must be above 0 and at most 1, got {value!r}.")
    return share


# Words of the median document, repeated ones counted, and words that a topic has of its own.
_MEDIAN_LENGTH = 42
_TOPIC_WORDS = 200


def make_text(
    n_samples: int = 11_000,
    n_features: int = 8_000,
    *,
    positive_share: float = 0.065,
    n_topics: int = 20,
    topic_share: float = 0.15,
    random_state: Seed = None,
) -> tuple[Any, Array]:
    """Documents in any number, as sparse rows of tf-idf weights of length one.

    How often words occur falls with their rank as in texts (Zipf's law), and the length of documents varies by a
    factor of ten. A document is about one topic, whose own words make up a share of it that varies from document to
    document (a beta distribution with first parameter 1); the rest are words of any document. Positives have two topics
    of their own, but for one in ten, which cannot be told from negatives.

    Parameters
    ----------
    n_samples : int, default=11_000
        Number of documents, at least 2.
    n_features : int, default=8_000
        Number of different words, at least 100.
    positive_share : float, default=0.065
        Share of positives, rounded to a whole number of rows but leaving at least one of each class.
    n_topics : int, default=20
        Number of topics, at least 3. The positives have the first two.
    topic_share : float, default=0.15
        Mean share of a topic's own words, below 1. The larger it is, the better positives can be told from negatives.
    random_state : int, Generator or RandomState, default=None
        Seed, or source of random numbers.

    Returns
    -------
    X : csr_matrix of shape (n_samples, n_features)
    y : ndarray of int
        0 and 1, in random order.

    Examples
    --------
    >>> from taufpl.datasets import make_text
    >>> X, y = make_text(1000, 2000, random_state=0)
    >>> X.shape, int(y.sum())
    ((1000, 2000), 65)
    """
    n_samples, n_features = (
        check_count("n_samples", n_samples, least=2),
        check_count("n_features", n_features, least=100),
    )
    n_topics = check_count("n_topics", n_topics, least=3)
    if not 0 < topic_share < 1:
        raise ValueError(f"topic_share must be above 0 and below 1, got {topic_share!r}.")
    rng = as_generator(random_state)
    y = random_labels(rng, n_samples, positive_share)
    hidden = rng.random(n_samples) < 0.1
    topic = np.where((y == 1) & ~hidden, rng.integers(2, size=n_samples), rng.integers(2, n_topics, size=n_samples))
    own_share = rng.beta(1, 1 / topic_share - 1, size=n_samples)
    counts = _word_counts(rng, topic, own_share, rng.integers(n_features, size=(n_topics, _TOPIC_WORDS)), n_features)
    return TfidfTransformer(sublinear_tf=True).fit_transform(counts), y


def _word_counts(rng: np.random.Generator, topic: Array, own_share: Array, own_words: Array, n_features: int) -> Any:
    """How often each word stands in each document; `own_words` has a row for each topic."""
    lengths = np.maximum(rng.lognormal(np.log(_MEDIAN_LENGTH), 0.55, size=topic.size).astype(np.int64), 1)
    document = np.repeat(np.arange(topic.size), lengths)
    words = _draw(rng, document.size, n_features)
    own = np.flatnonzero(rng.random(document.size) < own_share[document])
    words[own] = own_words[topic[document[own]], _draw(rng, own.size, own_words.shape[1])]
    starts = np.concatenate([[0], np.cumsum(lengths)])
    counts = csr_matrix((np.ones(words.size), words, starts), shape=(topic.size, n_features))
    counts.sum_duplicates()
    return counts


def _draw(rng: np.random.Generator, size: int, n_words: int) -> Array:
    """Words by Zipf's law: the one of rank r comes up in proportion to 1 / (r + 2.7)."""
    cumulative = np.cumsum(1 / (np.arange(n_words) + 3.7))
    return np.searchsorted(cumulative, rng.random(size) * cumulative[-1], side="right").astype(np.int32)
