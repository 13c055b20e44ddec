"""Shipped data are those that were published, and generators do what they say."""

import hashlib
import sys

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from scipy.stats import norm

from taufpl import TauFPLRanker
from taufpl.datasets import (
    LIBSVM_DATASETS,
    fetch_libsvm,
    load_breast_cancer,
    load_heart,
    load_spambase,
    make_scaling,
    make_screening,
    make_text,
    upsample,
)
from taufpl.metrics import tpr_at_fpr

LOADERS = {"heart": load_heart, "breast-cancer": load_breast_cancer, "spambase": load_spambase}


def digest(text):
    return hashlib.sha256(text).hexdigest()


def libsvm_text(X, y, labels):
    """Print rows as LIBSVM's tool does: six digits, no zeros, a blank at the end of each line."""
    lines = []
    for row, label in zip(X, y, strict=True):
        entries = [f"{column + 1}:{value:g}" for column, value in enumerate(row) if value]
        lines.append(" ".join([labels[label], *entries, "\n"]))
    return "".join(lines).encode()


class TestShipped:
    def test_heart_is_the_published_file(self):
        X, y = load_heart(return_X_y=True)
        published = "5defa0a4c4c5bdaf3f55ae3828310252e8565c13ee37ce279e0b86d82e7f4ce9"
        assert digest(libsvm_text(X, y, ["-1", "+1"])) == published

    def test_breast_cancer_is_the_published_file(self):
        X, y = load_breast_cancer(return_X_y=True)
        published = "8fe6bce62147e0715a192378d29acf839b4a8a71d75ae4c88245a3526c20a6e4"
        assert digest(libsvm_text(X, y, ["-1", "1"])) == published

    def test_raw_breast_cancer(self):
        raw = load_breast_cancer(scaled=False)
        # Computed from LIBSVM's file breast-cancer, which was parsed by somebody else's program.
        expected = "6f0e80d040744436d4b1c7ca07c3e396b719fb97ec955c7b96be3e7aa7bf9496"
        assert digest(raw.data.astype("<f8").tobytes()) == expected
        assert raw.feature_names[0] == "sample_number"
        assert set(np.unique(raw.data[:, 1:])) == set(range(1, 11))
        scaled = load_breast_cancer()
        low, high = raw.data.min(axis=0), raw.data.max(axis=0)
        np.testing.assert_allclose(scaled.data, 2 * (raw.data - low) / (high - low) - 1, atol=6e-7)
        assert (raw.target == scaled.target).all()

    def test_spambase_has_the_rows_of_the_original(self):
        X, y = load_spambase(return_X_y=True)
        rows = np.column_stack([X, y])
        # Computed from UCI's spambase.data; the order of rows differs, so that both are sorted.
        expected = "d68e267ef3454b1d7ceeb81e0410227822f49511476bb917e5c2b07ce11d5b47"
        assert digest(rows[np.lexsort(rows.T[::-1])].astype("<f8").tobytes()) == expected

    def test_spambase_columns_bear_the_right_names(self):
        spam = load_spambase(as_frame=True)
        # Means and maxima that UCI's documentation gives for some attributes.
        for name, mean, highest in [
            ("word_freq_make", 0.10455, 4.54),
            ("word_freq_3d", 0.065425, 42.81),
            ("word_freq_george", 0.7673, 33.33),
            ("word_freq_conference", 0.031869, 10),
            ("char_freq_;", 0.038575, 4.385),
            ("char_freq_$", 0.075811, 6.003),
            ("capital_run_length_average", 5.1915, 1102.5),
            ("capital_run_length_longest", 52.173, 9989),
            ("capital_run_length_total", 283.29, 15841),
        ]:
            assert spam.data[name].mean() == pytest.approx(mean, rel=1e-4), name
            assert spam.data[name].max() == highest, name

    def test_the_order_of_rows_is_documented(self):
        y = load_spambase().target
        assert (np.diff(y) <= 0).all()
        assert load_heart().target[:5].tolist() == [1, 0, 1, 0, 0]
        assert load_breast_cancer(scaled=False).data[:2, 0].tolist() == [1000025, 1002945]

    @pytest.mark.parametrize("name", LOADERS)
    def test_a_bunch_is_complete(self, name):
        info, bunch = LIBSVM_DATASETS[name], LOADERS[name]()
        assert bunch.data.shape == info.shape == (bunch.target.size, len(bunch.feature_names))
        assert bunch.data.dtype == np.float64
        assert bunch.data.flags.c_contiguous
        assert bunch.target.dtype == np.int64
        assert np.bincount(bunch.target).tolist() == [info.n_negative, info.n_positive]
        assert len(set(bunch.feature_names)) == info.n_features
        assert len(bunch.target_names) == 2
        assert bunch.frame is None
        assert "https://doi.org/10.24432/" in bunch.DESCR
        assert "Creative Commons Attribution 4.0" in bunch.DESCR

    @pytest.mark.parametrize("name", LOADERS)
    def test_pairs_and_frames(self, name):
        bunch = LOADERS[name]()
        X, y = LOADERS[name](return_X_y=True)
        framed = LOADERS[name](as_frame=True)
        frame, series = LOADERS[name](return_X_y=True, as_frame=True)
        assert (bunch.data == X).all()
        assert (y == bunch.target).all()
        pd.testing.assert_frame_equal(frame, framed.data)
        pd.testing.assert_series_equal(series, framed.target)
        assert list(framed.frame.columns) == [*bunch.feature_names, "target"]
        assert (frame.to_numpy() == X).all()
        assert (series.to_numpy() == y).all()

    def test_a_missing_pandas_is_named(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "pandas", None)
        with pytest.raises(ImportError, match=r"pandas is needed for as_frame=True.*pip install 'taufpl\[cli\]'"):
            load_heart(as_frame=True)

    @pytest.mark.parametrize("name", LOADERS)
    def test_fetched_by_name_without_a_network(self, name):
        fetched, shipped = fetch_libsvm(name, base_url="http://127.0.0.1:9/"), LOADERS[name]()
        assert (fetched.data.toarray() == shipped.data).all()
        assert (fetched.target == shipped.target).all()
        assert fetched.n_train == shipped.target.size
        assert shipped.DESCR == fetched.DESCR


class TestUpsample:
    def test_rows_are_repeated(self):
        X, y = np.arange(6.0).reshape(3, 2), np.array(["a", "b", "c"])
        more, labels = upsample(X, y, 2)
        assert (more == np.vstack([X, X])).all()
        assert labels.tolist() == [*"abcabc"]

    @pytest.mark.parametrize("kind", [np.asarray, csr_matrix, pd.DataFrame, list])
    def test_kinds_of_data(self, kind):
        X, y = np.arange(6.0).reshape(3, 2), [0, 1, 0]
        more, labels = upsample(kind(X.tolist()), y, 3, random_state=0)
        assert type(more) is type(kind(X.tolist()))
        dense = more.toarray() if isinstance(more, csr_matrix) else np.asarray(more)
        rows, counts = np.unique(np.column_stack([dense, labels]), axis=0, return_counts=True)
        assert (rows == np.column_stack([X, y])).all()
        assert counts.tolist() == [3, 3, 3]

    def test_shuffling_is_seeded(self):
        X, y = np.arange(50.0)[:, np.newaxis], np.arange(50)
        first, second, other = (upsample(X, y, 2, random_state=seed)[0] for seed in (1, 1, 2))
        assert (first == second).all()
        assert (first != other).any()
        assert (first != upsample(X, y, 2)[0]).any()

    def test_the_optimum_stays(self):
        X, y = make_scaling(200, 5, positive_share=0.25, random_state=0)
        more = upsample(X, y, 4, random_state=0)
        # 16 of 150 negatives count, and 64 of 600.
        one = TauFPLRanker(tau=15.5 / 150, reg=0.1, tol=1e-10).fit(X, y)
        four = TauFPLRanker(tau=63.5 / 600, reg=0.1, tol=1e-10).fit(*more)
        np.testing.assert_allclose(one.coef_, four.coef_, rtol=1e-4)

    @pytest.mark.parametrize("factor", [0, -1, 1.5, "2"])
    def test_bad_factors(self, factor):
        with pytest.raises((TypeError, ValueError), match="factor must be"):
            upsample([[1.0]], [1], factor)

    def test_lengths_must_agree(self):
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            upsample([[1.0], [2.0]], [1], 2)


class TestScreening:
    def test_formula_of_the_demo(self):
        rng = np.random.default_rng(0)
        X, y = make_screening(3000, 2000, random_state=rng)
        # The same numbers, drawn by hand: features first, then the kind of each row.
        again = np.random.default_rng(0)
        noise, kind = again.normal(size=(5000, 20)), again.random(5000)
        assert rng.random() == again.random()
        shift = X - noise
        assert (y == np.repeat([0, 1], [3000, 2000])).all()
        expected = np.where(y == 1, np.where(kind < 0.5, "found", "hidden"), np.where(kind < 0.15, "decoy", "plain"))
        for name, near, far in [("found", 2.5, 0), ("hidden", 0, 2), ("decoy", 0, 2.25), ("plain", 0, -0.5)]:
            rows = shift[expected == name]
            np.testing.assert_allclose(rows[:, :3], near, atol=1e-12)
            np.testing.assert_allclose(rows[:, 3:7], far, atol=1e-12)
            assert (rows[:, 7:] == 0).all()

    def test_seeds(self):
        first, second = (make_screening(10, 5, n_features=7, random_state=1)[0] for _ in range(2))
        assert first.shape == (15, 7)
        assert (first == second).all()
        state = np.random.RandomState(0)
        assert (make_screening(10, 5, random_state=state)[0] != make_screening(10, 5, random_state=state)[0]).any()

    def test_bad_numbers(self):
        with pytest.raises(ValueError, match="n_features must be at least 7, got 6"):
            make_screening(10, 10, n_features=6)
        with pytest.raises(ValueError, match="n_positive must be at least 1, got 0"):
            make_screening(10, 0)


class TestScaling:
    def best_direction(self, X, y):
        difference = np.asarray(X[y == 1].mean(axis=0) - X[y == 0].mean(axis=0)).ravel()
        return np.sign(difference) / np.sqrt(difference.size)

    def test_recall_is_the_one_that_is_promised(self):
        # 40,000 negatives and positives: standard errors of recall are below 0.005.
        X, y = make_scaling(80_000, 10, positive_share=0.5, separation=2.0, random_state=0)
        scores = X @ self.best_direction(X, y)
        for tau in (0.01, 0.1):
            assert tpr_at_fpr(y, scores, tau) == pytest.approx(norm.cdf(2.0 - norm.isf(tau)), abs=0.02)

    @pytest.mark.parametrize("n_features", [400, 401])
    def test_sparse_rows_have_the_moments_of_dense_ones(self, n_features):
        X, y = make_scaling(40_000, n_features, positive_share=0.5, separation=3.0, density=0.25, random_state=0)
        assert X.format == "csr"
        assert (np.diff(X.indptr) == 100).all()
        assert X.has_canonical_format
        scores = X @ self.best_direction(X, y)
        assert scores[y == 0].mean() == pytest.approx(0.0, abs=0.03)
        assert scores[y == 0].std() == pytest.approx(1.0, abs=0.03)
        assert scores[y == 1].mean() == pytest.approx(3.0, abs=0.03)
        # Every column is in use, the first and the last as well.
        assert (np.bincount(X.indices, minlength=n_features) > 7_500).all()

    def test_counts_and_seeds(self):
        X, y = make_scaling(1000, 4, positive_share=0.037, random_state=5)
        assert (X.shape, y.sum()) == ((1000, 4), 37)
        assert (np.diff(y) != 0).sum() > 30
        assert (make_scaling(1000, 4, positive_share=0.037, random_state=5)[0] == X).all()
        assert make_scaling(10, 3, positive_share=1e-6)[1].sum() == 1
        assert make_scaling(10, 3, positive_share=1.0)[1].sum() == 9
        assert make_scaling(5, 3, density=1e-9)[0].nnz == 5

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"positive_share": 0}, "positive_share must be above 0 and at most 1, got 0"),
            ({"density": 1.1}, "density must be above 0 and at most 1, got 1.1"),
            ({"density": float("nan")}, "density must be above 0"),
            ({"n_samples": 1}, "n_samples must be at least 2"),
            ({"n_features": 0}, "n_features must be at least 1"),
        ],
    )
    def test_bad_numbers(self, change, message):
        with pytest.raises(ValueError, match=message):
            make_scaling(**({"n_samples": 10} | change))


class TestText:
    def test_rows_are_sparse_unit_and_seeded(self):
        X, y = make_text(2000, 3000, random_state=3)
        assert X.format == "csr"
        assert X.has_canonical_format
        assert (X.shape, y.sum()) == ((2000, 3000), 130)
        np.testing.assert_allclose(X.power(2).sum(axis=1), 1.0)
        again, same = make_text(2000, 3000, random_state=3)
        assert (again != X).nnz == 0
        np.testing.assert_array_equal(y, same)

    def test_words_follow_zipf(self):
        X, _ = make_text(20_000, 5000, topic_share=0.01, random_state=0)
        documents = np.sort(np.bincount(X.indices, minlength=5000))[::-1]
        # Rare enough words stand in a document once, so that their documents fall as 1 / (rank + 3.7).
        fall = documents[100:130].mean() / documents[1000:1300].mean()
        assert fall == pytest.approx(1150 / 115, rel=0.15)

    def test_more_words_of_a_topic_tell_more(self):
        recalls = []
        for share in (0.05, 0.15, 0.5):
            X, y = make_text(6000, 4000, topic_share=share, random_state=0)
            scores = TauFPLRanker(tau=0.01, reg=0.1).fit(X[:4000], y[:4000]).decision_function(X[4000:])
            recalls.append(tpr_at_fpr(y[4000:], scores, 0.01))
        assert recalls[0] < recalls[1] - 0.1 < recalls[2] - 0.2
        assert recalls[2] < 0.95  # one positive in ten has a topic of the negatives

    @pytest.mark.parametrize(
        "bad", [{"n_topics": 2}, {"n_features": 10}, {"topic_share": 1.0}, {"positive_share": 0.0}]
    )
    def test_bad_arguments(self, bad):
        with pytest.raises(ValueError, match=f"{next(iter(bad))} must be"):
            make_text(**{"n_samples": 50, **bad})
