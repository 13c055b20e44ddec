"""The classifiers under strange data, strange arguments and wrong use."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import IsolationForest, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, StandardScaler, minmax_scale
from sklearn.svm import SVC

from estimator_cases import ScoreItself, X, Y, two_clouds
from taufpl import NeymanPearsonClassifier, ScreeningClassifier, TauFPLClassifier
from taufpl.thresholding import CrossFit, HeldOut, OutOfBootstrap, TrainQuantile


@pytest.mark.parametrize("offset", [100.0, *(pytest.param(offset, marks=pytest.mark.slow) for offset in (0.0, 1.0))])
def test_where_the_origin_lies_does_not_matter(offset):
    """Scores have no intercept: fits of folds differ in where their scores lie, the more the farther the origin."""
    rates = []
    for seed in range(10):
        train = two_clouds(m=60, n=200, d=100, shift=0.3, seed=seed)
        model = TauFPLClassifier(0.1, reg=0.01, tau_scale=1, random_state=0).fit(train[0] + offset, train[1])
        shift = model.coef_.sum() * offset
        rates.append(norm.sf((model.threshold_ - shift) / np.linalg.norm(model.coef_)))
    assert np.mean(np.array(rates) > 0.1) <= 0.2
    assert 0.02 < np.mean(rates) < 0.1


def test_one_monstrous_cell_neither_hangs_nor_blinds():
    monstrous = np.column_stack((X, np.zeros(900)))
    monstrous[np.flatnonzero(Y == 0)[0], 4] = -1e12
    for threshold in ("cross", "np"):
        model = TauFPLClassifier(0.1, reg=0.1, tau_scale=1, threshold=threshold, random_state=0).fit(monstrous, Y)
        assert model.predict(monstrous)[Y == 1].mean() > 0.5


def test_single_precision_ties_do_not_flip():
    rng = np.random.default_rng(0)
    rows = (rng.integers(0, 3, size=(2000, 60)) + 30).astype(np.float32)
    labels = np.repeat([0, 1], [1500, 500])
    rows[labels == 1, :5] += 1
    model = NeymanPearsonClassifier(LogisticRegression(C=1e-3, max_iter=1000), 0.3, threshold="train", random_state=0)
    model.fit(rows, labels)
    for other in (rows, np.asfortranarray(rows)):
        batches = np.concatenate([model.predict(other[start : start + 7]) for start in range(0, 1500, 7)])
        assert batches[:1500].mean() <= 0.3
        assert model.predict(other[:1500]).mean() <= 0.3


def test_a_new_fit_forgets_the_last_one():
    model = TauFPLClassifier(0.1, ranking="paper", tau_scale=1, regs=3, cv=2, random_state=0).fit(X, Y)
    assert "reg_" in vars(model)
    model.set_params(ranking="auto", tau_scale="cv").fit(X, Y)
    assert not {"cv_results_", "reg_"} & set(vars(model))
    model.set_params(reg=0.1).fit(X, Y)
    assert "selection_" not in vars(model)
    guarded = NeymanPearsonClassifier(LogisticRegression(), 0.1).fit(pd.DataFrame(X, columns=list("abcd")), Y)
    assert not hasattr(guarded.fit(X, Y), "feature_names_in_")


def test_positives_at_hand_tell_the_recall():
    fitted = LogisticRegression().fit(*two_clouds(seed=5))
    model = NeymanPearsonClassifier(fitted, 0.1, cv="prefit").fit(X, Y)
    assert model.evidence_.tpr_estimate == model.predict(X)[Y == 1].mean()
    assert model.recalibrate(X, Y).evidence_.tpr_estimate == model.predict(X)[Y == 1].mean()
    assert model.recalibrate(X[Y == 0]).evidence_.tpr_estimate is None


def test_a_fitted_outlier_detector_needs_negatives_only():
    detector = IsolationForest(random_state=0).fit(X[Y == 0][:400])
    model = NeymanPearsonClassifier(detector, 0.1, cv="prefit", pos_label=1).fit(X[Y == 0][400:], np.zeros(400, int))
    assert model.classes_.tolist() == [0, 1]
    with pytest.raises(ValueError, match="name the label of positives by pos_label"):
        NeymanPearsonClassifier(detector, 0.1, cv="prefit").fit(X[Y == 0][400:], np.zeros(400))


def test_strange_weights_and_labels_are_refused():
    weights = np.ones(900)
    weights[3] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        NeymanPearsonClassifier(ScoreItself(), 0.1).fit(X, Y, sample_weight=weights)
    weights[3] = -1.0
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        NeymanPearsonClassifier(ScoreItself(), 0.1).fit(X, Y, sample_weight=weights)
    with pytest.raises(ValueError, match="sample_weight"):
        NeymanPearsonClassifier(ScoreItself(), 0.1).fit(X, Y, sample_weight=np.ones(5))
    fitted = LogisticRegression().fit(X, Y)
    with pytest.raises(ValueError, match=r"labels that the fitted estimator knows, \[0, 1\]; got \[-1\] too"):
        NeymanPearsonClassifier(fitted, 0.1, cv="prefit").fit(X, np.where(np.arange(900) < 9, -1, Y))
    with pytest.raises(ValueError, match="at least 2 negatives"):
        NeymanPearsonClassifier(LogisticRegression(), 0.1, insufficient="infinite").fit(X[:9], np.arange(9) > 0)


WRONG = [
    (NeymanPearsonClassifier(LogisticRegression(), 0.0), X, Y, "'tau' parameter"),
    (NeymanPearsonClassifier(LogisticRegression(), 1.0), X, Y, "'tau' parameter"),
    (NeymanPearsonClassifier(LogisticRegression(), [0.1, 1.5]), X, Y, "tau must be"),
    (NeymanPearsonClassifier(LogisticRegression(), threshold="luck"), X, Y, "'threshold' parameter"),
    (NeymanPearsonClassifier(LogisticRegression(), delta=0.0), X, Y, "'delta' parameter"),
    (NeymanPearsonClassifier(LogisticRegression(), 0.1), X, np.zeros(900), "one class only"),
    (NeymanPearsonClassifier(LogisticRegression(), 0.1), X, np.arange(900) % 3, "Only binary classification"),
    (NeymanPearsonClassifier(LogisticRegression(), 0.1, pos_label="x"), X, Y, "pos_label must be one of"),
    (NeymanPearsonClassifier(LogisticRegression(), 0.1), X[:5], Y, "inconsistent numbers of samples"),
    (
        NeymanPearsonClassifier(LogisticRegression(), 0.2, threshold="cross"),
        X[:20],
        np.arange(20) == 3,
        "at least 2 rows",
    ),
    (TauFPLClassifier(0.2, reg=1.0, tau_scale=1, threshold="oob"), X[:20], np.arange(20) == 3, "at least 2 positives"),
    (TauFPLClassifier(1.5), X, Y, "'tau' parameter"),
    (TauFPLClassifier(reg="best"), X, Y, "'reg' parameter"),
    (TauFPLClassifier(threshold=OutOfBootstrap(combine="vote")), X, Y, "'combine' parameter of OutOfBootstrap"),
    (TauFPLClassifier(threshold=TrainQuantile(0.1)), X, Y, "takes the tau of the classifier"),
    (ScreeningClassifier(threshold=HeldOut(share=1.0)), X, Y, "'share' parameter of HeldOut"),
    (NeymanPearsonClassifier(LogisticRegression(), threshold=CrossFit(folds=1)), X, Y, "'folds' parameter"),
    (NeymanPearsonClassifier(LogisticRegression(), threshold=0.3), X, Y, "'threshold' parameter"),
]


@pytest.mark.parametrize(("estimator", "X", "y", "message"), WRONG)
def test_wrong_use_is_explained(estimator, X, y, message):
    with pytest.raises(ValueError, match=message):
        estimator.fit(X, y)


def test_unfitted_and_scoreless():
    for model in (TauFPLClassifier(), NeymanPearsonClassifier(LogisticRegression())):
        with pytest.raises(NotFittedError):
            model.predict(X)
        with pytest.raises(NotFittedError):
            model.recalibrate(X)
    with pytest.raises(NotFittedError):
        NeymanPearsonClassifier(LogisticRegression(), cv="prefit").fit(X, Y)

    class NoScore(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            self.classes_ = np.unique(y)
            return self

    with pytest.raises(TypeError, match="must have decision_function or predict_proba, NoScore has neither"):
        NeymanPearsonClassifier(NoScore(), 0.1).fit(X, Y)


class Reshaped(LogisticRegression):
    """Scores that are changed before anybody sees them."""

    def __init__(self, change=None):
        super().__init__()
        self.change = change

    def decision_function(self, X):
        return self.change(super().decision_function(X))


@pytest.mark.parametrize(
    ("change", "shape"),
    [
        (lambda scores: np.append(scores, 0.0), r"\(\d+,\)"),
        (lambda scores: scores[:-1], r"\(\d+,\)"),
        (lambda scores: scores[:, np.newaxis], r"\(\d+, 1\)"),
        (lambda scores: 1.0, r"\(\)"),
    ],
    ids=["one more", "one less", "a column", "one for all"],
)
def test_scores_that_are_not_one_a_row_are_refused(change, shape):
    X, y = two_clouds(60, 400, 3)
    for threshold in ("np", "cross"):
        model = NeymanPearsonClassifier(Reshaped(change), 0.1, threshold=threshold, random_state=0)
        with pytest.raises(ValueError, match=f"one score a row, shape .* Reshaped have shape {shape}"):
            model.fit(X, y)


def test_an_infinite_threshold_is_told():
    X, y = two_clouds(60, 400, 3)
    model = NeymanPearsonClassifier(Reshaped(lambda scores: np.where(scores > -5, np.inf, scores)), 0.1, threshold="np")
    with pytest.warns(UserWarning, match="so many negatives have an infinite score that the threshold is infinite"):
        model.fit(X, y)
    assert not model.predict(X).any()
    # Some that are infinite do no harm.
    few = NeymanPearsonClassifier(Reshaped(lambda scores: np.where(scores > 2, np.inf, scores)), 0.1, threshold="np")
    assert np.isfinite(few.fit(X, y).threshold_)
    assert few.predict(X[few.estimator_.decision_function(X) == np.inf]).all()


class ByPlace(ScoreItself):
    """A score that is the place of the row."""

    def decision_function(self, X):
        return np.arange(len(X), dtype=float)


class ByCall(ScoreItself):
    """A score that grows from call to call."""

    def decision_function(self, X):
        self.n_calls_ = getattr(self, "n_calls_", 0) + 1
        return np.asarray(X)[:, 0] + self.n_calls_


NOT_OF_THE_ROW = [
    (
        make_pipeline(FunctionTransformer(minmax_scale), LogisticRegression()),
        "scores hang on the other rows of a batch",
    ),
    (ByPlace(), "scores hang on the order of the rows"),
    (ByCall(), "scores change from call to call"),
]


@pytest.mark.parametrize(("scorer", "caveat"), NOT_OF_THE_ROW, ids=["batch", "place", "call"])
def test_a_score_that_is_no_function_of_the_row_is_not_guaranteed(scorer, caveat):
    X, y = two_clouds(60, 600, 1)
    model = NeymanPearsonClassifier(scorer, 0.05, threshold="np", random_state=0)
    with pytest.warns(UserWarning, match=f"{caveat}: the proof of the threshold"):
        model.fit(X, y)
    assert (model.evidence_.guaranteed, model.evidence_.caveats) == (False, (caveat,))
    new = two_clouds(60, 600, 1, seed=1)[0]
    for again in (
        lambda: model.recalibrate(new),
        lambda: NeymanPearsonClassifier(model.estimator_, 0.05, threshold="np", cv="prefit").fit(new, y),
    ):
        with pytest.warns(UserWarning, match=caveat):
            assert again().evidence_.caveats == (caveat,)
    # A threshold that promises nothing is chosen as before.
    train = NeymanPearsonClassifier(scorer, 0.05, threshold="train", delta=None).fit(X, y)
    assert train.evidence_.caveats == ()


@pytest.mark.filterwarnings("ignore::taufpl.exceptions.TooFewNegativesWarning")
def test_segments_that_hang_on_the_batch_are_not_guaranteed():
    X, y = two_clouds(60, 900, 2)
    halves = {"of the row": lambda X: np.where(X[:, 1] > 0, "a", "b"), "place": lambda X: np.arange(len(X)) % 2}
    settings = {"threshold": "np", "random_state": 0}
    model = NeymanPearsonClassifier(LogisticRegression(), 0.1, segments=halves["of the row"], **settings).fit(X, y)
    assert model.evidence_.guaranteed
    with pytest.warns(UserWarning, match="segments hang on the order of the rows"):
        model = NeymanPearsonClassifier(LogisticRegression(), 0.1, segments=halves["place"], **settings).fit(X, y)
    assert not any(each.guaranteed for each in (model.evidence_, *model.segments_.evidence))
    # One with a segment that has no limit, so that all rows together are not guaranteed in any case.
    few = {**settings, "segments": lambda X: np.where(np.arange(len(X)) < 5, "few", "many")}
    with pytest.warns(UserWarning, match="segments hang on the order of the rows"):
        model = NeymanPearsonClassifier(LogisticRegression(), {"few": 0.001, "many": 0.1}, **few).fit(X, y)
    assert not any(each.guaranteed for each in model.segments_.evidence)


class Rounded(ScoreItself):
    """A score whose last digits hang on the number of rows, as those of BLAS may, of each row in another way."""

    def decision_function(self, X):
        X = np.asarray(X)
        return X[:, 0] + 1e-9 * np.sin(1e6 * X[:, 0] + len(X))


@pytest.mark.parametrize(
    "scorer",
    [
        *(
            Rounded(),
            KNeighborsClassifier(),
            RandomForestClassifier(20),
            SVC(),
            GaussianNB(),
            MLPClassifier((4,), max_iter=5),
        ),
        make_pipeline(MinMaxScaler(), LogisticRegression()),
    ],
    ids=lambda scorer: type(scorer).__name__,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_rounding_does_to_scores_voids_no_guarantee(scorer):
    for scale, offset in ((1.0, 0.0), (1e-3, 1e4)):
        X, y = two_clouds(60, 600, 3)
        model = NeymanPearsonClassifier(scorer, 0.05, threshold="np", random_state=0)
        assert model.fit(scale * X + offset, y).evidence_.guaranteed


def test_a_method_of_a_fitted_estimator_may_have_seen_the_negatives():
    X, y = two_clouds(60, 600, 3)
    forest = RandomForestClassifier(20, random_state=0)
    settings = {"threshold": "np", "random_state": 0}
    model = make_pipeline(FunctionTransformer(forest.fit(X, y).predict_proba), LogisticRegression())
    found = NeymanPearsonClassifier(model, 0.05, **settings).fit(X, y).evidence_
    assert not found.guaranteed
    assert "a part of the estimator was fitted before" in found.caveats[0]
    # A method of one that is not fitted, and a plain function, have seen nothing.
    for function in (StandardScaler().set_params, np.abs):
        model = make_pipeline(
            FunctionTransformer(np.abs, inverse_func=function, check_inverse=False), LogisticRegression()
        )
        assert NeymanPearsonClassifier(model, 0.05, **settings).fit(X, y).evidence_.guaranteed
