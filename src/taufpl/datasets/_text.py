"""Generated texts: documents as sparse rows of word weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import TfidfTransformer

from taufpl._checks import check_count
from taufpl._types import Array
from taufpl.datasets._generate import Seed, as_generator, random_labels

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
