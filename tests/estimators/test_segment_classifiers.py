"""Classifiers with limits by segment: where labels come from, the division of rows, recall, files, and bad uses."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from estimator_cases import ScoreItself
from taufpl import NeymanPearsonClassifier, ScoreScreen, ScreeningClassifier, TauFPLClassifier
from taufpl.exceptions import ModelFileError, TooFewNegativesWarning, UnseenSegmentWarning
from taufpl.persistence import load_model, save_model, to_sql
from taufpl.thresholding import order_rank, shared_delta

TAUS = {"EU": 0.02, "others": 0.05}


def rows(n=4000, seed=0):
    """Scores in the first column, higher in the US, and a code for the segment in the last."""
    rng = np.random.default_rng(seed)
    codes = rng.choice(4, size=n, p=[0.56, 0.4, 0.02, 0.02])
    y = (rng.random(n) < 0.1).astype(int)
    X = np.column_stack([rng.normal(size=(n, 2)) + 1.5 * y[:, np.newaxis] + (codes == 1)[:, np.newaxis], codes])
    return X, y, np.array(["EU", "US", "FO", "GL"])[codes]


X, Y, LABELS = rows()
FRAME = pd.DataFrame(X, columns=["a", "b", "code"]).assign(country=LABELS)


def scorer(**settings):
    return NeymanPearsonClassifier(**{"estimator": ScoreItself(), "tau": TAUS, "random_state": 0, **settings})


def test_every_limit_is_an_order_statistic_of_the_held_out_negatives_of_its_segment():
    model = scorer().fit(X, Y, segments=LABELS)
    limits = model.segments_
    assert limits.limits == ("EU", "US", "others")
    assert limits.members["FO"] == limits.members["GL"] == "others"
    train = model.training_rows(Y, segments=LABELS)
    assert np.array_equal(np.sort(model.estimator_.rows_), np.sort(X[train, 0]))
    held_out = np.setdiff1d(np.arange(len(Y)), train)
    assert not Y[held_out].any()
    names = np.array([limits.members[each] for each in LABELS])
    for name, evidence in zip(limits.limits, limits.evidence, strict=True):
        own = np.sort(X[held_out[names[held_out] == name], 0])
        rank = order_rank(own.size, evidence.tau, shared_delta(0.05, 3))
        assert evidence.threshold == pytest.approx(own[rank - 1], rel=1e-12)
        assert evidence.rank == rank
        # No smaller sample leaves as many negatives above the threshold.
        smaller = order_rank(own.size - 1, evidence.tau, shared_delta(0.05, 3))
        assert smaller is None or own.size - 1 - smaller < own.size - rank
    decisions = model.decision_function(X, segments=LABELS)
    assert np.array_equal(decisions > 0, X[:, 0] > limits.thresholds(LABELS))
    assert np.array_equal(model.predict(X, LABELS), model.decide(X, LABELS)[:, 0].astype(int))
    assert model.score(X, Y, segments=LABELS) == np.mean(model.predict(X, LABELS) == Y)


def test_recall_is_counted_by_segment_and_over_all():
    model = scorer().fit(X, Y, segments=LABELS)
    limits, above = model.segments_, model.predict(X, LABELS) == 1
    for name, evidence in zip(limits.limits, limits.evidence, strict=True):
        own = (Y == 1) & np.isin(LABELS, [each for each, limit in limits.members.items() if limit == name])
        # The score does not depend on the fit, so that folds find what the model itself finds.
        assert (evidence.n_positive, evidence.n_true_positive) == (own.sum(), above[own].sum())
    whole = model.evidence_
    assert (whole.n_positive, whole.n_true_positive) == (Y.sum(), above[Y == 1].sum())
    assert whole.n_negative == sum(each.n_negative for each in limits.evidence)
    assert whole.guaranteed
    assert model.threshold_ == whole.threshold == limits.strictest
    assert whole.tau == 0.05


def test_labels_come_from_columns_functions_and_arrays_alike():
    expected = scorer().fit(X, Y, segments=LABELS).segments_.evidence
    by_name = scorer(segments="country").fit(FRAME.iloc[:, [0, 1, 3]], Y)
    assert by_name.segments_.column == "country"
    assert by_name.segments_.evidence == expected
    assert np.array_equal(by_name.predict(FRAME.iloc[:, [0, 1, 3]]), by_name.predict(X, segments=LABELS))
    by_function = scorer(segments=lambda frame: frame["country"]).fit(FRAME, Y)
    assert by_function.segments_.evidence == expected
    assert by_function.segments_.column is None
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": X[:, 0], "country": LABELS})
    assert scorer(segments=1).fit(frame, Y).segments_.evidence == expected
    for matrix in (X, sparse.csr_matrix(X), sparse.csr_array(X)):
        model = TauFPLClassifier(0.05, segments=2, reg=1.0, tau_scale=10.0, random_state=0).fit(matrix, Y)
        assert model.segments_.is_number
        assert model.segments_.members["0"] == "0"
        assert np.array_equal(model.predict(matrix), model.predict(X, segments=[str(int(each)) for each in X[:, 2]]))
        assert model.intercept_[0] == -model.segments_.strictest
        expected_decisions = X @ model.coef_[0] - model.segments_.thresholds(X[:, 2])
        assert np.allclose(model.decision_function(matrix), expected_decisions)


def test_groups_and_times_keep_their_divisions():
    groups, order, two = np.arange(len(Y)) // 2, np.arange(len(Y)), np.where(LABELS == "EU", "EU", "US")
    for given in ({"groups": groups}, {"order": order}):
        model = scorer().fit(X, Y, segments=two, **given)
        train = model.training_rows(Y, segments=two, **given)
        assert np.array_equal(np.sort(model.estimator_.rows_), np.sort(X[train, 0]))
        units = np.unique(given.get("groups", order)[Y == 0]).size
        assert model.evidence_.n_negative == round(units / 2)
        assert model.evidence_.guaranteed
    few = order[Y == 0][:400]  # one half would be too few for a proof
    few = scorer(tau=0.01).fit(
        X[: few[-1] + 1], Y[: few[-1] + 1], order=order[: few[-1] + 1], segments=two[: few[-1] + 1]
    )
    assert few.segments_.limits == ("others",)
    late = np.flatnonzero(Y == 0)[-model.evidence_.n_negative :]
    assert not np.intersect1d(late, train).size


def test_recalibration_chooses_all_limits_anew():
    model = scorer().fit(X, Y, segments=LABELS)
    fresh, y, labels = rows(seed=1)
    labels = np.where(labels == "US", "JP", labels)
    with pytest.warns(TooFewNegativesWarning, match="'US'"):
        model.recalibrate(fresh, y, segments=labels)
    assert model.segments_.limits == ("EU", "JP", "others")
    assert model.segments_.unproven == ("US",)
    negatives = fresh[(y == 0) & (labels == "JP"), 0]
    rank = order_rank(negatives.size, 0.05, shared_delta(0.05, 3))
    assert model.segments_.by_segment["JP"] == pytest.approx(np.sort(negatives)[rank - 1], rel=1e-12)
    with pytest.warns(UnseenSegmentWarning, match="1 of 2 rows are of segments without a proven limit.*'US'"):
        model.predict(fresh[:2], segments=["JP", "US"])
    prefit = scorer(cv="prefit", estimator=model.estimator_).fit(fresh, y, segments=labels)
    assert prefit.segments_.by_segment == pytest.approx(model.segments_.by_segment)
    assert prefit.evidence_.n_positive == y.sum()
    one = NeymanPearsonClassifier(ScoreItself(), 0.05, random_state=0).fit(X, Y)
    one.set_params(segments=2).recalibrate(fresh, y)  # limits by segment for a model that had none
    assert one.segments_.column == 2
    assert one.segments_.members["1"] == "1"


@pytest.mark.parametrize("sign", [1, -1])
def test_segments_that_lose_their_limit_keep_their_threshold_at_least(sign, tmp_path):
    names = ["score", "country"]
    frame = pd.DataFrame({"score": sign * X[:, 0], "country": LABELS})
    model = ScoreScreen("score", TAUS, segments="country", higher_is_positive=sign > 0).fit(frame, Y)
    before = model.segments_.by_segment["US"]  # the highest
    rest = frame[LABELS != "US"]
    for _ in range(2):  # it is kept as long as the segment has no limit
        with pytest.warns(TooFewNegativesWarning, match="'US'"):
            model.recalibrate(rest, Y[LABELS != "US"])
        assert max(each.threshold for each in model.segments_.evidence) < before
        assert model.segments_.strictest == model.evidence_.threshold == sign * model.threshold_ == before
        assert not model.evidence_.guaranteed
        strange = pd.DataFrame({"score": sign * (before + np.array([0.0, 1e-9])), "country": ["US", "new"]})
        with pytest.warns(UnseenSegmentWarning):
            assert model.predict(strange[names]).tolist() == [0, 1]
    assert repr(before).removeprefix("-") in to_sql(model)
    save_model(model, tmp_path / "m.skops")
    assert load_model(tmp_path / "m.skops").model.segments_ == model.segments_
    model.recalibrate(frame.assign(score=frame["score"] - sign * 9), Y)
    assert model.segments_.floor == -np.inf
    assert model.segments_.strictest < before - 5


def test_segments_without_a_limit_get_the_strictest_threshold_and_are_counted():
    model = scorer(insufficient="infinite").fit(X, Y, segments=LABELS)
    assert model.segments_.members["FO"] == "others"
    assert not model.predict(X, LABELS)[LABELS == "FO"].any()
    model = scorer().fit(X, Y, segments=LABELS)
    strange = np.where(np.arange(len(Y)) < 30, np.arange(len(Y)).astype(str), LABELS)
    with pytest.warns(UnseenSegmentWarning, match=r"30 of 4,000 rows .* '0', '1', '10', '11', '12' and 25 more"):
        decisions = model.decision_function(X, strange)
    assert np.allclose(decisions[:30], X[:30, 0] - model.segments_.strictest)


def test_screening_takes_segments_from_its_frame():
    model = ScreeningClassifier(
        TAUS, segments="country", effort="fast", candidates=[LogisticRegression()], random_state=0
    ).fit(FRAME, Y)
    assert model.segments_.limits == ("EU", "US", "others")
    assert model.feature_importances_.shape == (4,)
    assert "EU" in repr(model)
    assert clone(model).get_params()["tau"] == TAUS
    assert pickle.loads(pickle.dumps(model)).segments_ == model.segments_


def test_the_head_of_a_pipeline_takes_labels_of_its_own(tmp_path):
    head = TauFPLClassifier(TAUS, segments="country", reg=1.0, tau_scale=10.0, random_state=0)
    rows = StandardScaler().fit(X[:, :2]).transform(X[:, :2])
    head.fit(rows, Y, segments=LABELS)
    assert head.segments_.column == "country"
    save_model(head, tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops").model
    assert loaded.segments_ == head.segments_
    assert loaded.tau == TAUS
    assert np.array_equal(loaded.decision_function(rows, segments=LABELS), head.decision_function(rows, LABELS))
    assert '"country"' in to_sql(head)
    with pytest.raises(ModelFileError, match="segments come from a function"):
        save_model(head.set_params(segments=lambda X: X[:, 0]), tmp_path / "other.skops")
    assert not (tmp_path / "other.skops").exists()
    piped = make_pipeline(StandardScaler(), NeymanPearsonClassifier(LogisticRegression(), TAUS, random_state=0))
    piped.fit(X[:, :2], Y, neymanpearsonclassifier__segments=LABELS)
    assert piped.predict(X[:, :2], segments=LABELS).shape == Y.shape


def fit(settings=(), **given):
    return scorer(**dict(settings)).fit(X, Y, **{"segments": LABELS, **given})


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: fit(segments=None), "nothing says of which segment a row is"),
        (lambda: fit(segments=LABELS[:10]), "one label a row, 4000"),
        (lambda: fit({"tau": [0.01, 0.05]}), "a number for each segment"),
        (lambda: fit({"tau": {"EU": 0.01}}), "it has none for 'FO', 'GL', 'US'"),
        (lambda: fit({"tau": {"EU": 0.01, "EV": 0.01, "others": 0.1}}), "'EV', which no row has. The segments are "),
        (lambda: fit({"segments": lambda X: None}, segments=None), "must give one label a row of X; got None"),
        (lambda: fit({"threshold": "cross"}), "segments are for threshold='np'"),
        (lambda: fit({"threshold": "oob", "cv": "prefit"}), "segments are for threshold='np'"),
        (lambda: fit(segments=np.where(LABELS == "FO", "others", LABELS)), "may be called 'others'"),
        (lambda: fit({"tau": 1e-4}), "no segment has enough negatives for a proof"),
        (lambda: scorer(segments="land").fit(FRAME, Y), "segments='land' is no column of X"),
        (lambda: scorer(segments="country").fit(X, Y), "whose columns have no names"),
        (lambda: scorer(segments=7).fit(X, Y), "positions 0 to 2"),
        (lambda: fit().predict(X), "give segments=, one label a row"),
        (lambda: fit().recalibrate(X), "give segments=, one label a row"),
        (lambda: scorer(segments="country").training_rows(Y), "training_rows sees no columns"),
        (lambda: scorer(tau=0.05).fit(X, Y).predict(X, segments=LABELS), "one threshold for all rows"),
    ],
)
def test_bad_uses_end_with_a_sentence(use, message):
    with pytest.raises(ValueError, match=message):
        use()


def test_remote_rows_are_refused():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="segments are for rows in memory"):
        TauFPLClassifier(TAUS, segments=2).fit(torch.as_tensor(X), torch.as_tensor(Y))
