"""Rows that belong together, rows that came late, and rows that are copies: what a division must not tear apart."""

import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse, special
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from taufpl import KernelTauFPLClassifier, NeymanPearsonClassifier, TauFPLClassifier, TauFPLRankerCV
from taufpl.estimators import ArrayTable
from taufpl.exceptions import RepeatedRowsWarning, TooFewNegativesWarning
from taufpl.thresholding import HeldOut


class Remembers(ClassifierMixin, BaseEstimator):
    """Scores by the first feature, and knows which rows it was fitted on by the last one."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.rows_ = np.asarray(X)[:, -1].astype(int)
        return self

    def decision_function(self, X):
        return np.asarray(X)[:, 0]


def grouped(n_groups=300, size=4, seed=0):
    """Groups of negatives and of positives, some of both; the last feature is the number of the row."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n_groups), size)
    y = (rng.random(groups.size) < 0.1 + 0.8 * (groups < 0.2 * n_groups)).astype(int)
    X = rng.normal(size=(groups.size, 2)) + y[:, np.newaxis]
    shuffled = rng.permutation(groups.size)
    X, y, groups = X[shuffled], y[shuffled], groups[shuffled]
    return np.column_stack((X, np.arange(y.size))), y, np.array([f"customer {code}" for code in groups])


X, Y, GROUPS = grouped()
TIMES = np.random.default_rng(1).permutation(Y.size)


def test_np_divides_no_group_and_takes_one_negative_of_each():
    model = NeymanPearsonClassifier(Remembers(), 0.05, threshold="np", random_state=0).fit(X, Y, groups=GROUPS)
    train = model.estimator_.rows_
    held_out = np.setdiff1d(np.arange(Y.size), train)
    assert not set(GROUPS[train]) & set(GROUPS[held_out])
    negative_groups = np.unique(GROUPS[held_out][Y[held_out] == 0])
    assert model.evidence_.n_negative == negative_groups.size
    # The threshold is the score of one of the held-out negatives; groups without a negative all train.
    assert np.abs(X[held_out][Y[held_out] == 0, 0] - model.threshold_).min() < 1e-9
    assert set(np.unique(GROUPS)) - set(np.unique(GROUPS[Y == 0])) <= set(GROUPS[train])
    assert model.evidence_.guaranteed


@pytest.mark.parametrize("threshold", ["cross", "oob", "train"])
def test_other_strategies_divide_no_group(threshold):
    seen = []

    class Spy(Remembers):
        def fit(self, X, y):
            super().fit(X, y)
            seen.append(self.rows_)
            return self

    model = NeymanPearsonClassifier(Spy(), 0.1, threshold=threshold, random_state=0).fit(X, Y, groups=GROUPS)
    parts = [rows for rows in seen if rows.size < Y.size]
    assert len(parts) >= 5
    for rows in parts:
        assert not set(GROUPS[rows]) & set(np.delete(GROUPS, rows))
    assert model.evidence_.n_negative <= np.unique(GROUPS[Y == 0]).size


@pytest.mark.parametrize(
    "estimator",
    [TauFPLClassifier(0.1, cv=3), TauFPLClassifier(0.1, ranking="paper", regs=3, cv=3), KernelTauFPLClassifier(0.1)],
    ids=["auto", "paper", "kernel"],
)
def test_searches_divide_no_group(estimator, monkeypatch):
    folds, split = [], ArrayTable.split

    def spy(table, *args, **kwargs):
        found = split(table, *args, **kwargs)
        folds.extend((table.units.groups, *pair) for pair in found.pairs)
        sizes = np.array([[held_out.n_positive, held_out.n_negative] for _, held_out in found.pairs])
        assert sizes.sum(axis=0).tolist() == [table.n_positive, table.n_negative]
        assert (sizes.max(axis=0) <= 1.25 * sizes.mean(axis=0)).all()
        return found

    monkeypatch.setattr(ArrayTable, "split", spy)
    if isinstance(estimator, KernelTauFPLClassifier):
        estimator.set_params(gamma=1.0, regs=2, cv=2)
    estimator.set_params(random_state=0).fit(X[:, :2] + 0.0, Y, groups=GROUPS)
    assert folds
    for groups, train, held_out in folds:
        assert not set(groups[train.rows]) & set(groups[held_out.rows])


def test_folds_of_groups_have_both_classes_and_are_even():
    drawn = []
    for seed in (0, 1):
        fitted = []

        class Spy(Remembers):
            def fit(self, X, y, fitted=fitted):
                super().fit(X, y)
                fitted.append(self.rows_)
                return self

        screen = NeymanPearsonClassifier(Spy(), 0.1, threshold="cross", cv=5, random_state=seed)
        screen.fit(X, Y, groups=GROUPS)
        folds = [np.setdiff1d(np.arange(Y.size), rows) for rows in fitted if rows.size < Y.size]
        np.testing.assert_array_equal(np.sort(np.concatenate(folds)), np.arange(Y.size))
        for kind in (0, 1):
            sizes = np.array([np.sum(Y[fold] == kind) for fold in folds])
            assert sizes.max() <= 1.25 * sizes.mean()
        drawn.append(folds)
    assert any(not np.array_equal(one, other) for one, other in zip(*drawn, strict=True))


def test_groups_reach_searches_inside_pipelines_and_through_routing():
    inner = make_pipeline(StandardScaler(), TauFPLRankerCV(0.1, regs=2, cv=3, tau_scale=4.0))
    NeymanPearsonClassifier(inner, 0.1, random_state=0).fit(X, Y, groups=GROUPS)
    with sklearn.config_context(enable_metadata_routing=True):
        NeymanPearsonClassifier(inner, 0.1, random_state=0).fit(X, Y, groups=GROUPS)
        search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=GroupKFold(3))
        NeymanPearsonClassifier(search, 0.1, random_state=0).fit(X, Y, groups=GROUPS)
        screen = NeymanPearsonClassifier(Remembers(), 0.1, random_state=0).set_fit_request(groups=True)
        found = cross_validate(
            screen, X, Y, cv=GroupKFold(2), params={"groups": GROUPS}, return_estimator=True, error_score="raise"
        )
        for model in found["estimator"]:
            assert model.evidence_.n_negative < 150  # groups, not rows
        chain = make_pipeline(
            StandardScaler(), TauFPLClassifier(0.1, reg=1.0, tau_scale=4.0, random_state=0).set_fit_request(groups=True)
        )
        assert chain.fit(X, Y, groups=GROUPS)[-1].evidence_.n_negative < 300
    with pytest.raises(ValueError, match="cross-validation needs at least 2 rows of each class, got 1 positive"):
        TauFPLRankerCV(0.1).fit(X, Y, groups=np.where(Y == 1, 0, np.arange(Y.size)))


def test_the_latest_negatives_choose():
    model = NeymanPearsonClassifier(Remembers(), 0.05, threshold="np", random_state=0).fit(X, Y, order=TIMES)
    train = model.estimator_.rows_
    held_out = np.setdiff1d(np.arange(Y.size), train)
    assert TIMES[train].max() < TIMES[held_out].min()
    # Late positives were not trained on, and tell the recall.
    late = X[held_out][Y[held_out] == 1, 0]
    assert model.evidence_.n_positive == late.size
    assert model.evidence_.n_true_positive == np.sum(late > model.threshold_)
    dates = pd.Timestamp("2024-01-01") + pd.to_timedelta(TIMES, unit="h")
    again = NeymanPearsonClassifier(Remembers(), 0.05, threshold="np", random_state=0).fit(X, Y, order=dates)
    assert again.threshold_ == model.threshold_


def test_groups_with_times_are_neither_divided_nor_chosen_by_their_size():
    """Rows of a large group spread over time: its last row is late, a random one is not."""
    rng = np.random.default_rng(0)
    sizes = np.where(rng.random(800) < 0.5, 1, 20)
    groups, times = np.repeat(np.arange(800), sizes), rng.random(sizes.sum())
    y = (rng.random(800) < 0.2)[groups].astype(int)
    # The score says whether the group is small.
    table = np.column_stack(((sizes == 1)[groups] + 0.01 * rng.random(y.size), np.arange(y.size)))
    small, scored = [], []

    class Spy(Remembers):
        def decision_function(self, X):
            scored.append(X[:, -1].astype(int))
            return super().decision_function(X)

    for seed in range(20):
        scored.clear()
        model = NeymanPearsonClassifier(Spy(), 0.05, threshold=HeldOut(measure_recall=False), random_state=seed)
        assert model.fit(table, y, groups=groups, order=times).evidence_.guaranteed
        train, held_out = model.estimator_.rows_, scored[0]  # later, some rows are scored to see what scores hang on
        chosen = held_out[y[held_out] == 0]
        assert chosen.size == model.evidence_.n_negative
        assert not set(groups[train]) & set(groups[chosen])
        assert times[train].max() < times[chosen].min()
        assert len(set(groups[chosen])) == chosen.size
        small.append(np.mean(sizes[groups[chosen]] == 1))
    assert abs(np.mean(small) - np.mean(sizes[np.unique(groups[y == 0])] == 1)) < 0.05


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"groups": GROUPS[:5]}, "groups must have one entry a row of X, 1200; got an array of shape"),
        ({"groups": np.zeros((1200, 2))}, "one entry a row of X, 1200; got an array of shape"),
        ({"groups": pd.array(["a", None] * 600, dtype="string")}, "600 are missing"),
        ({"order": np.arange(1200).astype(str)}, "order must hold numbers or dates, got texts"),
        ({"groups": np.where(np.arange(1200) == 3, np.nan, 1.0)}, "1 are missing, first in row 3"),
        ({"order": np.array([None] + [1] * 1199, dtype=object)}, "order must have a value for every row"),
        ({"groups": np.array(["a"] + [1] * 1199, dtype=object)}, "values of one kind"),
        ({"order": np.zeros(1200)}, "nothing would be left to learn from"),
        ({"groups": np.zeros(1200)}, "got 1"),
    ],
)
def test_groups_and_order_that_make_no_sense_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        NeymanPearsonClassifier(Remembers(), 0.1, threshold="np").fit(X, Y, **given)


def test_order_is_for_np():
    with pytest.raises(ValueError, match="order is for threshold='np'"):
        TauFPLClassifier(0.1, threshold="cross").fit(X, Y, order=TIMES)
    with (
        pytest.warns(TooFewNegativesWarning, match="does not respect the order"),
        pytest.warns(TooFewNegativesWarning, match="largest negative score was taken"),
    ):
        NeymanPearsonClassifier(Remembers(), 0.001).fit(X, Y, order=TIMES)


def test_a_fitted_scorer_takes_groups():
    fitted = Remembers().fit(X, Y)
    model = NeymanPearsonClassifier(fitted, 0.05, cv="prefit", random_state=0).fit(X, Y, groups=GROUPS)
    assert model.evidence_.n_negative == np.unique(GROUPS[Y == 0]).size
    model.recalibrate(X, Y, groups=np.arange(Y.size))
    assert model.evidence_.n_negative == np.sum(Y == 0)
    with pytest.raises(ValueError, match="takes no parameters of fit but groups"):
        NeymanPearsonClassifier(fitted, 0.05, cv="prefit").fit(X, Y, order=TIMES)


# Copies.


def repeated_draw(rng, n=100, m=40, times=5):
    y = np.repeat([0, 1], [n, m])
    X = rng.normal(size=(n + m, 3)) + y[:, np.newaxis]
    return np.repeat(X, times, axis=0), np.repeat(y, times), np.repeat(np.arange(n + m), times)


def test_copies_are_counted_and_void_the_guarantee():
    X, y, _ = repeated_draw(np.random.default_rng(0))
    with pytest.warns(RepeatedRowsWarning, match="500 of 500 negatives repeat exactly, as 100 different rows"):
        model = NeymanPearsonClassifier(LogisticRegression(), 0.05, threshold="np", random_state=0).fit(X, y)
    assert not model.evidence_.guaranteed
    assert "exact copies of others or of training rows" in model.evidence_.caveats[0]
    with pytest.warns(RepeatedRowsWarning):
        linear = TauFPLClassifier(0.05, reg=0.1, tau_scale=10.0, threshold="np", random_state=0).fit(X, y)
    assert not linear.evidence_.guaranteed
    with pytest.warns(RepeatedRowsWarning):
        assert not linear.recalibrate(X, y).evidence_.guaranteed


def fitted_on(table, y):
    """A screen of these rows whose scores say nothing."""
    screen = NeymanPearsonClassifier(DummyClassifier(), 0.05, threshold=HeldOut(measure_recall=False), random_state=0)
    return screen.fit(table, y)


def test_copies_of_whole_numbers_bits_and_texts_are_found():
    rng = np.random.default_rng(0)
    texts = [f"text number {place}" for place in range(200)]
    words = sparse.random(100, 50, 0.1, format="csr", random_state=0)
    for rows in (
        words,
        rng.integers(0, 61, size=(100, 20)),
        rng.integers(0, 2, size=(100, 200)),
        np.array(texts)[:, None],
    ):
        n = 5 * (rows.shape[0] - 10)
        with pytest.warns(RepeatedRowsWarning, match=f"{n} of {n} negatives repeat exactly, as {n // 5} different"):
            fitted_on(rows[np.repeat(np.arange(rows.shape[0]), 5)], (np.arange(5 * rows.shape[0]) < 50).astype(int))
    X, y, _ = repeated_draw(rng)
    for form in (X.tolist(), X.astype(object), [" ".join(map(str, row)) for row in np.round(X, 2)]):
        with pytest.warns(RepeatedRowsWarning):
            screen = fitted_on(form, y)
        assert not screen.evidence_.guaranteed


def test_a_part_that_was_fitted_before_voids_the_guarantee():
    fitted = RandomForestClassifier(10, random_state=0).fit(X, Y)
    chain = make_pipeline(StandardScaler(with_mean=False, with_std=False), FrozenEstimator(fitted))
    screen = NeymanPearsonClassifier(chain, 0.05, random_state=0).fit(X, Y)
    assert not screen.evidence_.guaranteed
    assert "fitted before" in screen.evidence_.caveats[0]


def test_rows_without_weight_are_absent_in_pipelines_too():
    weights = (np.arange(Y.size) % 2).astype(float)
    chain = make_pipeline(StandardScaler(), LogisticRegression())
    screen = NeymanPearsonClassifier(chain, 0.05, random_state=0)
    direct = NeymanPearsonClassifier(LogisticRegression(), 0.05, random_state=0).fit(X, Y, sample_weight=weights)
    assert (
        screen.fit(X, Y, logisticregression__sample_weight=weights).evidence_.n_negative == direct.evidence_.n_negative
    )


def test_recall_counts_groups_not_rows():
    screen = NeymanPearsonClassifier(LogisticRegression(), 0.05, random_state=0).fit(X[:, :2], Y, groups=GROUPS)
    assert screen.evidence_.n_positive <= np.unique(GROUPS[Y == 1]).size


@pytest.mark.slow
def test_groups_mend_what_copies_break():
    """Every row five times: without groups the tolerance breaks in most draws, with them in at most delta."""
    rng = np.random.default_rng(0)
    broken = {"plain": 0, "groups": 0}
    n_draws = 200
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RepeatedRowsWarning)
        for draw in range(n_draws):
            X, y, groups = repeated_draw(rng, n=160)
            for name, given in (("plain", None), ("groups", groups)):
                screen = NeymanPearsonClassifier(
                    Remembers(), 0.05, threshold=HeldOut(share=0.5, measure_recall=False), random_state=draw
                )
                # The score is the first feature, standard normal for negatives.
                threshold = screen.fit(X, y, groups=given).threshold_
                broken[name] += special.ndtr(-threshold) > 0.05
    assert broken["groups"] <= n_draws * 0.05 + 4 * np.sqrt(n_draws * 0.05 * 0.95)
    assert broken["plain"] > 2 * n_draws * 0.05 + 4 * np.sqrt(n_draws * 0.05 * 0.95)


RNG = np.random.default_rng(5)
BY_CHANCE = {
    "levels": RNG.integers(0, 4, size=(2000, 3)),
    "bits": RNG.integers(0, 2, size=(2000, 8)).astype(float),
    "counts": RNG.poisson(3, size=(2000, 2)).astype(float),
    "whole numbers": RNG.integers(0, 1000, size=(2000, 1)).astype(float),
    "rounded": np.round(RNG.normal(size=(2000, 1)), 3),
    "cents": np.round(RNG.lognormal(3, 1, size=(2000, 1)), 2),
    "mostly zero": np.where(RNG.random((2000, 2)) < 0.9, 0.0, RNG.normal(size=(2000, 2))),
    "six digits": np.round(RNG.normal(size=(2000, 1)), 6),
    "whole numbers on another scale": (RNG.integers(0, 1000, size=(2000, 1)) - 499.5) / np.sqrt(83333.25),
    "counts on another scale": (RNG.poisson(30, size=(2000, 2)) - 30.01) / 5.4772,
    "single precision": RNG.random(2000, dtype=np.float32)[:, np.newaxis],
    "empty texts": sparse.random(2000, 50, 0.001, format="csr", random_state=0),
}


@pytest.mark.parametrize("table", BY_CHANCE.values(), ids=BY_CHANCE.keys())
def test_rows_that_repeat_by_chance_are_no_copies(table):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RepeatedRowsWarning)
        assert fitted_on(table, (np.arange(table.shape[0]) < 2).astype(int)).evidence_.guaranteed


@pytest.mark.parametrize("make", [np.asarray, pd.DataFrame, np.asfortranarray, np.float32])
def test_copies_are_found_in_every_container(make):
    rows = RNG.normal(size=(300, 3))
    table, y = make(np.vstack((rows, rows[:20]))), np.zeros(320, dtype=int)
    y[100:110] = 1
    with pytest.warns(RepeatedRowsWarning, match="40 of 310 negatives repeat exactly, as 20 different rows"):
        screen = fitted_on(table, y)
    held = np.setdiff1d(np.flatnonzero(y == 0), screen.training_rows(y))
    n_copies = np.sum((held < 20) | (held >= 300))
    assert screen.evidence_.caveats[0].startswith(f"{n_copies} of the {held.size} negatives that chose the threshold")
