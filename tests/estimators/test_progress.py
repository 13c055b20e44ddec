"""Steps of long fits: told to a watcher, or printed where `verbose` asks for it."""

import re

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from taufpl import (
    KernelTauFPLClassifier,
    NeymanPearsonClassifier,
    ScreeningClassifier,
    TauFPLClassifier,
    TauFPLRankerCV,
)
from taufpl.estimators import steps_within, watching
from taufpl.thresholding import OutOfBootstrap

RNG = np.random.default_rng(0)
Y = (RNG.random(600) < 0.3).astype(int)
X = RNG.normal(size=(600, 3)) + 2 * Y[:, np.newaxis]
TAU = 0.1
STACK = {"candidates": [("logistic", LogisticRegression())], "effort": "fast", "random_state": 0}

ESTIMATORS = {
    "linear": TauFPLClassifier(TAU, random_state=0, cv=3),
    "kernel": KernelTauFPLClassifier(TAU, random_state=0, cv=2, regs=2, tau_scale="cv", n_components=20),
    "any scorer": NeymanPearsonClassifier(LogisticRegression(), TAU, threshold="train", random_state=0, cv=3),
    "rounds": NeymanPearsonClassifier(LogisticRegression(), TAU, threshold=OutOfBootstrap(n_rounds=4), random_state=0),
    "ranker": TauFPLRankerCV(TAU, regs=2, cv=2, max_extensions=1),
    "stack": ScreeningClassifier(TAU, **STACK),
}
SOME_STEPS = {
    "linear": {"comparing rankings, fold 2 of 6", "fitting the model on 400 rows", "measuring the recall, fold 3 of 3"},
    "kernel": {"tau_scale 4: fold 2 of 2", "judging the best again: fold 2 of 2", "measuring the recall, fold 1 of 2"},
    "any scorer": {"fitting the model on 600 rows", "checking the threshold, fold 3 of 3"},
    "rounds": {"round 1 of 4", "round 4 of 4"},
    "ranker": {"grid of reg, tau_scale 1: fold 2 of 2"},
    "stack": {"logistic, fold 1 of 3"},
}


def told_by(estimator):
    told = []
    with watching(lambda *each: told.append(each)):
        estimator.fit(X, Y)
    return told


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_every_long_fit_tells_its_steps(name, n_jobs, capsys):
    told = told_by(ESTIMATORS[name].__sklearn_clone__().set_params(n_jobs=n_jobs))
    texts = [what for _, _, what in told]
    for wanted in SOME_STEPS[name]:
        pattern = re.sub(r"\b400\b", r"[34]\\d\\d", wanted)
        assert any(re.search(f"{pattern}$", text) for text in texts), (wanted, texts)
    assert all(0 <= n_done <= n_steps for n_done, n_steps, _ in told)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("name", ESTIMATORS)
def test_verbose_prints_them_and_changes_nothing_else(name, capsys):
    quiet = ESTIMATORS[name].__sklearn_clone__().fit(X, Y)
    assert capsys.readouterr() == ("", "")
    loud = ESTIMATORS[name].__sklearn_clone__().set_params(verbose=1).fit(X, Y)
    out, err = capsys.readouterr()
    assert out == ""
    assert err
    assert all(re.fullmatch(r"\[\d+/\d+\] .+", line) for line in err.splitlines())
    np.testing.assert_array_equal(quiet.decision_function(X), loud.decision_function(X))
    with pytest.raises(ValueError, match="'verbose' parameter"):
        loud.set_params(verbose="much").fit(X, Y)


@pytest.mark.parametrize("name", ["linear", "stack"])
def test_a_backend_without_single_results_tells_them_at_the_end(name, monkeypatch):
    monkeypatch.setattr(joblib._parallel_backends.ThreadingBackend, "supports_return_generator", False)
    with joblib.parallel_config("threading"):
        told = told_by(ESTIMATORS[name].__sklearn_clone__().set_params(n_jobs=2))
    assert SOME_STEPS[name] & {what for _, _, what in told}


def test_remote_rows_tell_their_folds():
    da = pytest.importorskip("dask.array")
    told = []
    with watching(lambda *each: told.append(each)):
        TauFPLRankerCV(TAU, regs=2, cv=2, tau_scale=1.0, max_extensions=0).fit(
            da.from_array(X, (300, 3)), da.from_array(Y, 300)
        )
    assert [what for _, _, what in told[:2]] == [f"grid of reg, tau_scale 1: fold {n} of 2" for n in (1, 2)]


def test_fits_inside_a_fold_are_parts_of_its_step():
    told = told_by(ScreeningClassifier(TAU, threshold="cross", cv=2, **STACK))
    inside = [each for each in told if each[2].startswith("checking the threshold, fold 2 of 2: logistic")]
    assert [n_done for n_done, _, _ in inside] == pytest.approx([1 + 1 / 3, 1 + 2 / 3, 2])


PLAIN = NeymanPearsonClassifier(LogisticRegression(), TAU, threshold="cross", cv=2, random_state=0)
PLAIN_STEPS = [
    (0, 1, "fitting the model on 600 rows"),
    (1, 2, "checking the threshold, fold 1 of 2"),
    (2, 2, "checking the threshold, fold 2 of 2"),
]


def test_a_step_without_parts_is_told_when_it_is_done():
    assert told_by(clone(PLAIN)) == PLAIN_STEPS


def test_the_only_step_goes_without_saying():
    """With one gamma the search tells of its folds alone; with several it says at which gamma they are."""
    searches = (KernelTauFPLClassifier(TAU, gamma=g, regs=2, cv=2, n_components=20) for g in (1.0, "cv"))
    one, several = (next(what for *_, what in told_by(each) if "fold 1 of 2" in what) for each in searches)
    assert one.startswith("grid of reg")
    assert several.startswith("gamma")
    assert several.endswith(one)


def test_nobody_is_told_once_the_watcher_has_left():
    told = told_by(clone(PLAIN))
    clone(PLAIN).fit(X, Y)
    assert told == PLAIN_STEPS


class FailsOnFewRows(LogisticRegression):
    def fit(self, X, y):
        if len(y) < Y.size:
            raise ZeroDivisionError
        return super().fit(X, y)


def test_an_error_in_a_step_leaves_the_watcher_as_it_was():
    told = []
    with watching(lambda *each: told.append(each)):
        with pytest.raises(ZeroDivisionError):
            clone(PLAIN).set_params(estimator=FailsOnFewRows()).fit(X, Y)
        assert told == PLAIN_STEPS[:1]
        clone(PLAIN).fit(X, Y)
    assert told[1:] == PLAIN_STEPS


def test_steps_within_a_step():
    told = []
    steps_within(lambda *each: told.append(each), 3, 5, "forest")(1, 2, "fold 1")
    assert told == [(3.5, 5, "forest: fold 1")]
