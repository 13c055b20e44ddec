"""Tests of what pipelines and searches around a screen leave of its guarantee, wherever a saved model speaks of it."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, PolynomialFeatures, StandardScaler

from cli_cases import succeed
from persistence_cases import FRESH, FRESH_Y, X, Y, guarded, rows
from taufpl import TauFPLClassifier
from taufpl.metrics import tpr_at_fpr_scorer
from taufpl.persistence import load_model, save_model, training_summary, unwrap
from taufpl.report import render_report

SEARCHED, STEPS = "a search around it chose among 2 candidates", "learned outside of it"


def screen():
    return TauFPLClassifier(0.05, reg=0.1, tau_scale=1.0, threshold="np", random_state=0)


def search(model=None, scoring="recall", cs=(0.1, 1.0), **settings):
    model = guarded(LogisticRegression(), threshold="np", **settings) if model is None else model
    name = "C" if isinstance(model, LogisticRegression) else "estimator__C"
    return GridSearchCV(model, {name: list(cs)}, scoring=scoring, cv=2).fit(X, Y)


def told(model):
    """Whether each limit of a model is guaranteed, and its caveats, as a file tells them."""
    evidence = training_summary(model)["evidence"]
    return [each["guaranteed"] for each in evidence], [caveat for each in evidence for caveat in each["caveats"]]


WRAPPED = {
    "search": (search, [SEARCHED]),
    "pipeline": (lambda: make_pipeline(StandardScaler(), screen()).fit(X, Y), ["StandardScaler before", STEPS]),
    "frozen step": (lambda: make_pipeline(FrozenEstimator(StandardScaler().fit(X)), screen()).fit(X, Y), [STEPS]),
    "search in a pipeline": (
        lambda: make_pipeline(
            StandardScaler(), GridSearchCV(screen(), {"reg": [0.1, 1.0]}, scoring=tpr_at_fpr_scorer(0.05), cv=2)
        ).fit(X, Y),
        [STEPS, SEARCHED],
    ),
}


@pytest.mark.parametrize(("make", "expected"), WRAPPED.values(), ids=WRAPPED)
def test_what_is_around_a_screen_voids_its_guarantee_everywhere(make, expected, tmp_path):
    model, path = make(), tmp_path / "screen.skops"
    header = save_model(model, path)
    loaded = load_model(path).model
    assert np.array_equal(loaded.decision_function(FRESH), model.decision_function(FRESH))
    assert header.training["evidence"] == training_summary(loaded)["evidence"]
    (limit,) = succeed("info", path, "--json").document["limits"]
    assert told(model) == ([limit["guaranteed"]], limit["caveats"]) == ([False], limit["caveats"])
    in_words, page = succeed("info", path).out, render_report(model, FRESH, FRESH_Y)
    assert "a caveat voids the proof" in page
    for each in expected:
        assert each in "; ".join(limit["caveats"])
        assert each in " ".join(page.split())
    assert "no: " in in_words


@pytest.mark.parametrize(
    "make",
    [
        lambda: guarded(search(LogisticRegression()), threshold="np").fit(X, Y),
        lambda: guarded(make_pipeline(StandardScaler(), screen().set_params(threshold="train"))).fit(X, Y),
        lambda: search(cs=(1.0,)),
        lambda: make_pipeline("passthrough", FunctionTransformer(np.tanh), Normalizer(), screen()).fit(X, Y),
        lambda: make_pipeline(
            ColumnTransformer([("some", Normalizer(), [0, 1]), ("same", "passthrough", [2, 3])]),
            FeatureUnion([("one", make_pipeline(Normalizer()))]),
            FrozenEstimator(Normalizer()),
            screen(),
        ).fit(X, Y),
    ],
    ids=["search inside", "pipeline inside", "one candidate", "steps that learn nothing", "parts that learn nothing"],
)
def test_what_has_not_seen_the_negatives_keeps_the_guarantee(make):
    assert told(make()) == ([True], [])


def test_text_is_vectorized_inside():
    texts = np.array(["prize winner" if label else "meeting today" for label in Y])
    texts = np.char.add(texts, np.char.mod(" word%d", np.arange(Y.size) % 97))
    for vectorizer, is_proven in ((TfidfVectorizer(), False), (HashingVectorizer(n_features=256), True)):
        model = make_pipeline(vectorizer, screen()).fit(texts, Y)
        assert told(model)[0] == [is_proven]
    inside = guarded(make_pipeline(TfidfVectorizer(), screen().set_params(threshold="train")), threshold="np")
    assert told(inside.fit(texts, Y))[0] == [True]


def test_methods_of_fitted_estimators_as_steps_have_learned():
    inner = LogisticRegression().fit(X, Y)
    model = make_pipeline(FunctionTransformer(inner.predict_proba), screen()).fit(X, Y)
    assert "FunctionTransformer before" in told(model)[1][0]


@pytest.mark.parametrize("make", [search, lambda: make_pipeline(StandardScaler(), screen()).fit(X, Y)])
def test_fresh_negatives_prove_the_threshold_of_what_was_wrapped(make, tmp_path):
    save_model(make(), path := tmp_path / "screen.skops")
    new, labels = rows(600, seed=3)
    table = pd.DataFrame(new, columns=[f"x{place}" for place in range(4)])
    table[labels == 0].to_csv(tmp_path / "fresh.csv", index=False)
    done = succeed("recalibrate", path, tmp_path / "fresh.csv", "--json").document
    assert (done["guaranteed"], done["caveats"]) == (True, [])
    assert told(load_model(path).model) == ([True], [])


def test_a_sequence_that_began_within_the_search_keeps_its_caveat():
    model, (new, labels) = search(looks="any"), rows(600, seed=3)
    model.best_estimator_.recalibrate(new, labels)
    assert SEARCHED in told(model)[1][0]
    model.best_estimator_.recalibrate(new, labels, restart=True)
    assert told(model) == ([True], [])


def test_caveats_are_told_of_every_tolerance_and_segment():
    several = make_pipeline(StandardScaler(), guarded(LogisticRegression(), threshold="np").set_params(tau=[0.05, 0.1]))
    assert told(several.fit(X, Y))[0] == [False, False]
    labels = np.where(np.arange(Y.size) % 2, "a", "b")
    scale = StandardScaler().fit(X)
    model = make_pipeline(scale, screen().fit(scale.transform(X), Y, segments=labels))
    limits = unwrap(model).head.segments_.evidence
    assert [each.guaranteed for each in limits] == [False, False]
    assert all(each.guaranteed for each in model[-1].segments_.evidence)  # the classifier itself stays as it is


def test_the_command_divides_before_steps_learn(tmp_path):
    pd.DataFrame(X).assign(y=Y).to_csv(table := tmp_path / "rows.csv", index=False)
    options = ("--target", "y", "--tau", 0.05, "--model", "linear", "--json")
    fitted = succeed("fit", table, *options, "-o", path := tmp_path / "screen.skops").document
    assert fitted["guaranteed"]
    model = load_model(path).model
    assert told(model) == ([True], [])
    # A file of an older version does not say so, and the command has written it.
    saved = load_model(path)
    del saved.model[-1]._steps_divided
    save_model(saved.model, path, training=saved.header.training)
    assert told(load_model(path).model) == ([True], [])
    # Steps that are fitted again see all rows.
    assert told(model.fit(pd.DataFrame(X, columns=model.feature_names_in_), Y))[0] == [False]


def test_searches_over_words_are_saved(tmp_path):
    model = GridSearchCV(guarded(LogisticRegression()), {"estimator__solver": ["lbfgs", "liblinear"]}, scoring="recall")
    save_model(model.fit(X, Y), tmp_path / "screen.skops")
    found = load_model(tmp_path / "screen.skops").model
    assert found.cv_results_["param_estimator__solver"].tolist() == ["lbfgs", "liblinear"]
    assert (found.predict(X) == model.predict(X)).all()


def test_steps_that_count_columns_have_learned_nothing():
    assert told(make_pipeline(PolynomialFeatures(2), screen()).fit(X, Y)) == ([True], [])
