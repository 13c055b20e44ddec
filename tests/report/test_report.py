"""Reports: their figures against independent computation, their words, their features and examples."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.stats import beta, binom
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from report_cases import embedded, guarded, linear_model, part, plain, rows, screening, section
from taufpl import NeymanPearsonClassifier, TauFPLClassifier, TauFPLRanker, TauFPLRankerCV
from taufpl.metrics import tpr_at_fpr
from taufpl.preprocessing import DateEncoder, LevelEncoder, TableEncoder
from taufpl.report import amount, rate, render_report
from taufpl.thresholding import OutOfBootstrap, negatives_to_settle

X, Y = screening()


@pytest.fixture(scope="module")
def linear():
    return linear_model()


def upper(x, n, delta=0.05):
    return 1.0 if x == n else float(beta.ppf(1.0 - delta, x + 1, n - x))


def lower(x, n, delta=0.05):
    return 0.0 if x == 0 else float(beta.ppf(delta, x, n - x + 1))


# Figures


@pytest.mark.parametrize("base_rate", [None, 0.003])
def test_figures_in_use_equal_independent_ones(linear, base_rate):
    page = render_report(linear, X, Y, base_rate=base_rate, volume_per_day=25_000, data_is_new=True)
    found, used = embedded(page), embedded(page)["operating"]
    alarm = linear.predict(X) == 1
    n, m, x, t = (Y == 0).sum(), (Y == 1).sum(), (alarm & (Y == 0)).sum(), (alarm & (Y == 1)).sum()
    base = m / (n + m) if base_rate is None else base_rate
    assert (found["n_negative"], found["n_positive"], used["n_false"], used["n_true"]) == (n, m, x, t)
    assert found["base_rate"] == pytest.approx(base)
    expected = {
        "fpr": x / n,
        "fpr_upper": upper(x, n),
        "fpr_lower": lower(x, n),
        "recall": t / m,
        "recall_low": lower(t, m, 0.025),
        "recall_high": upper(t, m, 0.025),
        "precision": base * t / m / (base * t / m + (1 - base) * x / n),
        "true_alarms": 25_000 * base * t / m,
        "false_alarms": 25_000 * (1 - base) * x / n,
        "threshold": linear.threshold_,
    }
    assert {name: used[name] for name in expected} == pytest.approx(expected, rel=1e-9)
    assert part(page, "card-fpr").startswith("False-alarm rate (FPR)")
    assert rate(x / n) in page
    assert f"{x} of 4,000 harmless cases" in plain(page)
    assert f"{t} of 300 positives found" in plain(page)
    assert amount(expected["true_alarms"] + expected["false_alarms"]) in page


@pytest.mark.parametrize("base_rate", [0.01, (0.01, 0.03)])
def test_precision_is_bounded_by_both_rates_together(base_rate):
    page = render_report(guarded(), X, Y, base_rate=base_rate)
    used, each = embedded(page)["operating"], 1 - 0.95**0.5
    true = 0.01 * lower(used["n_true"], 300, each)
    false = 0.99 * upper(used["n_false"], 4000, each)
    assert used["precision_low"] == pytest.approx(true / (true + false))
    is_range = isinstance(base_rate, tuple)
    assert embedded(page)["base_rate"] == pytest.approx(0.02 if is_range else 0.01)
    assert ("if 1 % to 3 % are" in part(page, "card-precision")) == is_range


def test_slider_equals_independent_thresholds():
    model = guarded()
    data = embedded(render_report(model, X, Y))
    steps, negative, positive = data["slider"], np.sort(X[Y == 0, 0]), X[Y == 1, 0]
    n = negative.size
    assert steps["tau"][steps["own"]] == 0.01
    assert steps["tau"] == sorted(steps["tau"])
    for i, tau in enumerate(steps["tau"]):
        allowed = int(np.floor(tau * n + 1e-9))
        threshold = negative[n - 1 - allowed]
        measured = {name: column[i] for name, column in steps["measured"].items()}
        assert measured["threshold"] == threshold
        assert measured["n_false"] == (negative > threshold).sum()
        assert measured["n_true"] == (positive > threshold).sum()
        assert measured["fpr_upper"] == pytest.approx(upper(allowed, n), rel=1e-9)
        ranks = np.flatnonzero(binom.cdf(np.arange(n), n, tau) <= 0.05)
        if not ranks.size:
            assert steps["proven"]["threshold"][i] is None
            assert steps["needed"][i] > n
        else:
            assert steps["proven"]["threshold"][i] == negative[n - 1 - ranks[-1]]
            assert steps["proven"]["fpr_upper"][i] <= tau


def test_table_of_tolerances():
    page = render_report(guarded(), X, Y, data_is_new=True)
    found = {line[0]: line for line in rows(section(page, "tolerances"))}
    assert list(found) == ["0.01 %", "0.05 %", "0.1 %", "0.5 %", "1 %", "2 %", "5 %", "10 %"]
    for tau in (0.0001, 0.001, 0.01, 0.1):
        line = found[rate(tau).replace("\u00a0", " ")]
        assert line[2].startswith(rate(tpr_at_fpr(Y, X[:, 0], tau)).replace("\u00a0", " "))
    assert found["1 %"][4] == "299"
    assert found["0.01 %"][3:] == ["–", "too few here 29,956"]


def test_np_roc_is_drawn_where_the_rows_may_prove_something():
    """Drawn is the last step's recall, of 2,000 by 1,000 units from the top; no step lies left of the first proof."""
    page = section(render_report(guarded(), X, Y, data_is_new=True), "tolerances")
    path = re.search(r'class="line curve" d="M(\d+) (\d+)', page)
    axis = (np.log(upper(0, 4000)) - np.log(0.5 / 4000)) / -np.log(0.5 / 4000)
    assert int(path[1]) == pytest.approx(2000 * axis, abs=1)
    assert int(path[2]) == round(1000 * (1 - np.mean(X[Y == 1, 0] > X[Y == 0, 0].max())))
    assert 'class="line curve"' not in section(render_report(guarded(), X, Y, data_is_new=False), "tolerances")


def test_what_is_shown_is_what_is_predicted(linear):
    """In every row: each of them is an example here, in the table of alarms or in the other one."""
    for model in (linear, TauFPLRanker(0.05, tau_scale=5.0).fit(X, Y)):
        alarm, some = model.predict(X) == 1, np.arange(0, len(Y), 11)
        used = embedded(render_report(model, X, Y))["operating"]
        assert (used["n_false"], used["n_true"]) == (alarm[Y == 0].sum(), alarm[Y == 1].sum())
        page = render_report(model, X[some], Y[some], n_examples=400)
        above, below = (set(shown) for shown in examples(page))
        assert above == set(np.flatnonzero(alarm[some]))
        assert below == set(np.flatnonzero(~alarm[some]))


def test_rates_are_never_rounded_to_none_or_all():
    assert [rate(x).replace("\u00a0", " ") for x in (0.99951, 1 - 1e-6, 1e-6, 0.5)] == [
        "99.95 %",
        "99.9999 %",
        "0.0001 %",
        "50 %",
    ]
    assert amount(1234567.5) == "1,234,568"


@pytest.mark.parametrize("tau", [1e-7, 0.003, 0.7, 0.99])
def test_slider_reaches_a_tolerance_of_any_size(tau):
    some = [*range(500), *range(4000, 4030)]
    steps = embedded(render_report(guarded(tau, n=500, threshold="train"), X[some], Y[some]))["slider"]
    taus = steps["tau"]
    assert taus[steps["own"]] == tau
    assert np.all(np.diff(taus) > 0)
    assert 0 < taus[0] < taus[-1] < 1


# Verdict and promise


def model_at(threshold, tau=0.01):
    """The first feature, and positive what exceeds the threshold."""
    model = guarded(tau)
    model.threshold_, model.thresholds_ = threshold, np.array([threshold])
    return model


@pytest.mark.parametrize(
    ("threshold", "is_new", "kind"),
    [
        (3.0, True, "kept"),
        (3.0, None, "open"),
        (3.0, False, "open"),
        (2.33, True, "open"),
        (1.5, True, "broken"),
        (1.5, False, "broken"),
    ],
)
def test_verdict(threshold, is_new, kind):
    page = render_report(model_at(threshold), X, Y, data_is_new=is_new)
    data = embedded(page)
    assert data["verdict"] == kind
    assert f'<div class="verdict {kind}"' in page
    used, tau = data["operating"], 0.01
    assert (kind == "broken") == (used["fpr_lower"] > tau)
    assert kind != "kept" or used["fpr_upper"] <= tau
    assert "proven" in data["slider"] or is_new is False


def test_an_open_verdict_says_what_would_settle_it():
    page = render_report(model_at(2.33), X, Y, data_is_new=True)
    used = embedded(page)["operating"]
    needed = negatives_to_settle(used["n_false"], 4000, 0.01, 0.05)
    assert f"Open {used['n_false']} of 4,000" in part(page, "verdict")
    assert f"About {needed:,} harmless cases at this rate would tell." in part(page, "verdict")


def test_rows_that_are_not_new_are_not_called_so():
    assert "New data." in plain(render_report(guarded(), X, Y, data_is_new=True))
    assert "New data? Not known." in plain(render_report(guarded(), X, Y))
    text = plain(render_report(guarded(), X, Y, data_is_new=False))
    assert "Not new data." in text
    assert "were these rows new" in text
    assert "Recall with guarantee" not in text


def test_promise_of_each_strategy():
    train_X, train_y = screening(800, 100, seed=3)
    settings = {"reg": 0.01, "tau_scale": 4.0, "random_state": 0}
    expected = {
        ("np", 0.05): ("guarantee", "With 95 % confidence, at most 1 in 20 harmless cases raises an alarm."),
        ("cross", 0.1): ("close", "With about 90 % confidence, at most 1 in 20"),
        (OutOfBootstrap(n_rounds=3), 0.05): ("close", "not proven"),
        (OutOfBootstrap(n_rounds=3), None): ("none", "No promise: aimed at 1 in 20"),
        ("train", 0.05): ("none", "No promise: set so that 1 in 20"),
    }
    for (threshold, delta), (kind, words) in expected.items():
        model = TauFPLClassifier(0.05, threshold=threshold, delta=delta, **settings).fit(train_X, train_y)
        page = render_report(model, X, Y)
        assert embedded(page)["promise"] == kind
        assert words in plain(page)
        assert ('id="rounds"' in page) == (model.strategy_ == "oob")
    model.recalibrate(X, Y)  # the same classifier, now with a guarantee
    page = render_report(model, X, Y)
    assert embedded(page)["promise"] == "guarantee"
    assert "4,000 harmless cases that the model had never seen" in plain(page)


def test_ranker_promises_nothing():
    page = render_report(TauFPLRanker(0.05, tau_scale=5.0).fit(X, Y), X, Y)
    assert embedded(page)["promise"] == "none"
    assert "No promise: set so that 1 in 20 of the harmless training cases" in plain(page)
    search = TauFPLRankerCV(0.05, tau_scale=5.0, regs=[0.1, 0.01], cv=2).fit(X, Y)
    assert embedded(render_report(search, X, Y))["tau"] == 0.05


def test_rounds_on_another_scale_show_no_threshold_in_use():
    settings = {"reg": 0.01, "tau_scale": 4.0, "random_state": 0}
    model = TauFPLClassifier(0.05, threshold=OutOfBootstrap(n_rounds=3, combine="refit"), **settings).fit(X, Y)
    shown = section(render_report(model, X, Y), "rounds")
    assert "in use" not in shown
    assert shown.count("h0") == 3
    assert "in use" in section(
        render_report(TauFPLClassifier(0.05, threshold=OutOfBootstrap(n_rounds=3), **settings).fit(X, Y), X, Y),
        "rounds",
    )


def test_several_tolerances():
    model = guarded([0.05, 0.01, 0.02])
    page = render_report(model, X, Y, data_is_new=True)
    assert embedded(page)["tau"] == 0.01
    lines = rows(section(page, "several"))
    assert [line[0] for line in lines] == ["1 %", "2 %", "5 %"]
    decided = model.decide(X)[Y == 0].mean(axis=0)
    assert [line[2] for line in lines] == [rate(decided[i]).replace("\u00a0", " ") for i in (1, 2, 0)]
    assert "one of 3 tolerances" in plain(page)


# Features and examples


def weights_of(page):
    """Names and weights in the table of features, largest first; shares as such. Three digits are shown."""
    found = {line[0]: line[2].replace("−", "-") for line in rows(section(page, "features"))}
    return {name: float(text.rstrip(" %")) * (0.01 if "%" in text else 1.0) for name, text in found.items()}


def examples(page):
    """The reasons of the rows above the threshold, and of those below, by number of the row. Two digits are shown."""
    shown = section(page, "examples")
    tables = [rows(each) for each in re.findall("<tbody.*?</tbody>", shown, re.DOTALL)]
    return [{int(line[0]): reasons_in(line[-1]) for line in table} for table in tables]


def reasons_in(cell):
    """Features, or columns with their values, and how far they moved the score."""
    found = re.findall(r"(\S.*?) ([+−])([\d.e-]+)(?= |$)", cell)
    return {name: float(size) * (1 if sign == "+" else -1) for name, sign, size in found}


def check_sums(page, scores):
    """Reasons of a row add up to its score above that of the mean negative: as two digits can tell, and on average."""
    expected = scores - scores[Y == 0].mean()
    found = {row: sum(own.values()) for table in examples(page) for row, own in table.items()}
    assert len(found) > 20
    errors = [each / expected[row] - 1 for row, each in found.items()]
    assert np.max(np.abs(errors)) < 0.06
    assert abs(np.mean(errors)) < 0.01


def test_weights_are_coefficients_times_deviations(linear):
    some = np.arange(0, len(Y), 100)  # so few that one degree of freedom counts
    expected = linear.coef_[0] * X[some].std(axis=0)
    found = weights_of(render_report(linear, X[some], Y[some], feature_names=["a", "b", "c"]))
    order = np.argsort(-np.abs(expected))
    assert list(found) == [["a", "b", "c"][i] for i in order]
    assert list(found.values()) == pytest.approx(expected[order], rel=5.1e-3)


def test_reasons_add_up_to_the_score(linear):
    page = render_report(linear, X, Y, n_examples=40)
    assert all(len(own) == 3 for table in examples(page) for own in table.values())
    check_sums(page, linear.decision_function(X))


def test_reasons_of_texts_are_words():
    rng = np.random.default_rng(0)
    words = np.array(["cash", "win", "meet", "noon", "lunch", "report"])
    texts = [" ".join(rng.choice(words[: 3 if spam else None], 4)) for spam in Y]
    model = NeymanPearsonClassifier(make_pipeline(TfidfVectorizer(), LogisticRegression()), 0.1, random_state=0)
    page = render_report(model.fit(texts, Y), texts, Y, n_examples=5)
    assert set(weights_of(page)) == {*words}
    counts = model.estimator_[0].transform(texts).toarray()
    names, coef = model.estimator_[0].get_feature_names_out(), model.estimator_[1].coef_[0]
    moves = coef * (counts - counts[Y == 0].mean(axis=0))
    for row, own in (shown for table in examples(page) for shown in table.items()):
        most = np.argsort(-np.abs(moves[row]))[:3]
        assert [*own.values()] == pytest.approx(moves[row][most], rel=0.051)
        assert all(moves[row][names == name] == pytest.approx(by, rel=0.051) for name, by in own.items())


def test_sparse_rows_give_the_same_report(linear):
    thin = np.where(np.abs(X) > 0.5, X, 0.0)
    pages = [render_report(linear, each, Y) for each in (thin, sparse.csr_matrix(thin), sparse.csr_array(thin))]
    assert len({re.sub(r"at \d\d:\d\d", "", page) for page in pages}) == 1


def test_scorers_inside_pipelines_are_named_by_what_they_see():
    frame = pd.DataFrame(X, columns=["amount", "age", "hour"])
    scaled = make_pipeline(StandardScaler(), LogisticRegression())
    model = NeymanPearsonClassifier(scaled, 0.05, random_state=0).fit(frame, Y)
    found = weights_of(render_report(model, frame, Y))
    assert next(iter(found)) == "amount"
    expected = model.estimator_[-1].coef_[0] * model.estimator_[:-1].transform(frame).std(axis=0)
    assert [found[name] for name in frame] == pytest.approx(expected, rel=5.1e-3)
    turned = NeymanPearsonClassifier(scaled, 0.05, pos_label=0, random_state=0).fit(frame, Y)
    assert next(iter(weights_of(render_report(turned, frame, Y)).values())) < 0
    outer = make_pipeline(StandardScaler(), TauFPLRanker(0.05, tau_scale=5.0)).fit(frame, Y)
    assert next(iter(weights_of(render_report(outer, frame, Y)))) == "amount"


def test_mean_of_rounds_of_any_scorer():
    options = {"threshold": OutOfBootstrap(n_rounds=2), "random_state": 0}
    model = NeymanPearsonClassifier(make_pipeline(StandardScaler(), LogisticRegression()), 0.05, **options).fit(X, Y)
    page = render_report(model, X, Y, feature_names=["a", "b", "c"], n_examples=40)
    found = weights_of(page)
    each = [m[-1].coef_[0] * m[:-1].transform(X).std(axis=0) for m in model.estimators_]
    assert [found[name] for name in "abc"] == pytest.approx(np.mean(each, axis=0), rel=5.1e-3)
    check_sums(page, model.decision_function(X))


def test_other_scorers_show_the_recall_that_is_lost_without_a_column():
    """Only the first feature says anything: without it, recall is about the false-alarm rate."""
    bayes = NeymanPearsonClassifier(GaussianNB(), 0.05, random_state=0).fit(X, Y)
    page = render_report(bayes, X, Y, feature_names=["amount", "age", "hour"])
    assert "measured on these rows" in plain(page)
    found, recall = weights_of(page), np.mean(bayes.predict(X)[Y == 1] == 1)
    assert next(iter(found)) == "amount"
    assert recall - 0.15 < found["amount"] < recall
    assert max(abs(found.get(name, 0.0)) for name in ("age", "hour")) < 0.1
    assert re.search(r"amount = [\d.]+ \+", rows(section(page, "examples"))[0][5])


def test_importances_are_those_of_the_scorer_where_no_positive_raises_an_alarm():
    forest = NeymanPearsonClassifier(RandomForestClassifier(5, random_state=0), 0.05, random_state=0).fit(X, Y)
    harmless, labels = X[Y == 0], Y[Y == 0]
    page = render_report(forest, harmless, labels)
    assert "Importances as the scorer reports them" in plain(page)
    found = [weights_of(page)[f"feature {i}"] for i in range(3)]
    assert found == pytest.approx(forest.estimator_.feature_importances_, rel=5.1e-3)
    bayes = NeymanPearsonClassifier(GaussianNB(), 0.05, random_state=0).fit(X, Y)
    assert "cannot be told" in plain(render_report(bayes, harmless, labels))


def test_features_are_called_by_column_and_level():
    rng = np.random.default_rng(0)
    n = Y.size
    frame = pd.DataFrame(
        {
            "amount": np.where(rng.random(n) < 0.1, np.nan, X[:, 0]),
            "city": np.where(rng.random(n) < 0.2 + 0.5 * Y, "O'Hare", np.where(rng.random(n) < 0.01, "Ely", "x__y")),
            "created": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n), "D"),
        }
    )
    parts = [("categories", LevelEncoder(min_frequency=100), ["city"])]
    parts += [("numbers", make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), ["amount"])]
    parts += [("dates", make_pipeline(DateEncoder(), StandardScaler()), ["created"])]
    for encoder in (ColumnTransformer(parts), TableEncoder()):
        scorer = make_pipeline(encoder, LogisticRegression())
        model = NeymanPearsonClassifier(scorer, 0.05, random_state=0).fit(frame, Y)
        page = render_report(model, frame, Y)
        names = set(weights_of(page))
        assert "more feature" not in page
        assert {"amount", "amount is missing", "city = O'Hare", "city = x__y", "created: weekday"} < names
        assert ("city is rare" in names) == isinstance(encoder, ColumnTransformer)
        assert not [name for name in names if "numbers__" in name or "city_" in name]
        reasons = " ".join(line[5] for line in rows(section(page, "examples")))
        assert "city = O'Hare +" in reasons
        assert "__" not in reasons.replace("x__y", "")


def test_score_means_score_minus_threshold(linear):
    """As in `predict` and every export; what the threshold has not been taken off is the raw score."""
    page = render_report(linear, X, Y, n_examples=4)
    expected = linear.decision_function(X)
    assert "Row Score Raw score" in plain(page)
    for line in rows(section(page, "examples")):
        score, raw = (float(cell.replace("−", "-")) for cell in line[1:3])
        assert score == pytest.approx(expected[int(line[0])], rel=1e-2, abs=1e-9)
        assert raw == pytest.approx(expected[int(line[0])] + linear.threshold_, rel=1e-3)
    assert "Raw score" in section(page, "scores")
    assert embedded(page)["raw_score_range"][0] < linear.threshold_ < embedded(page)["raw_score_range"][1]


def test_errors_are_called_by_what_they_look_like_in_either_theme(linear):
    shown = section(render_report(linear, X, Y), "scores")
    assert "dark" not in shown
    assert "Errors are in the stronger colour." in shown


def test_examples_are_the_nearest_rows(linear):
    above, below = examples(render_report(linear, X, Y, n_examples=4))
    scores = linear.decision_function(X)
    order = np.argsort(scores)
    first = np.searchsorted(scores[order], 0.0, side="right")
    assert [*above] == order[first : first + 4].tolist()
    assert [*below] == order[first - 1 : first - 5 : -1].tolist()
    frame = pd.DataFrame(X, columns=list("abc"), index=[f"case-{i}" for i in range(len(Y))])
    page = render_report(TauFPLRanker(0.02, tau_scale=9.0).fit(frame, Y), frame, Y, n_examples=4)
    assert "case-" in section(page, "examples")
    assert len(rows(section(page, "examples"))) == 4
    assert 'id="examples"' not in render_report(linear, X, Y, n_examples=0)


def test_examples_are_called_by_the_ids_that_are_given(linear):
    assert "numbered from 0" in plain(render_report(linear, X, Y))
    ids = pd.Series([f"case-{i}" for i in range(Y.size)], name="case_id")
    expected = [line[0] for line in rows(section(render_report(linear, X, Y), "examples"))]
    page = render_report(linear, X, Y, ids=ids)
    assert [line[0] for line in rows(section(page, "examples"))] == [f"case-{name}" for name in expected]
    assert "case_id Score Raw score" in plain(page)
    assert "numbered" not in plain(page)
    frame = pd.DataFrame(X, columns=list("abc"))
    fitted = TauFPLRanker(0.02, tau_scale=9.0).fit(frame, Y)
    expected = [line[0] for line in rows(section(render_report(fitted, frame, Y), "examples"))]
    shown = rows(section(render_report(fitted, frame, Y, ids="b"), "examples"))
    assert shown[0][0] == str(X[int(expected[0]), 1])
    with pytest.raises(ValueError, match="'d' is no column of X"):
        render_report(fitted, frame, Y, ids="d")
    with pytest.raises(ValueError, match="one id a row of X, 4300; got 3"):
        render_report(linear, X, Y, ids=[1, 2, 3])


# Training rows


def test_training_rows_settle_whether_data_are_new(linear):
    train_X, train_y = screening(1500, 150, seed=7)
    assert embedded(render_report(linear, X, Y, training=(train_X, train_y)))["data_is_new"] is True
    assert embedded(render_report(linear, train_X, train_y, training=(train_X, train_y)))["data_is_new"] is False
    both_X, both_y = np.vstack((X, train_X[:10])), np.append(Y, train_y[:10])
    page = render_report(linear, both_X, both_y, training=(train_X, train_y))
    assert embedded(page)["data_is_new"] is None
    assert "10 of 4,310 rows have the features of a training row" in plain(page)
    said = render_report(linear, both_X, both_y, training=(train_X, train_y), data_is_new=True)
    assert embedded(said)["data_is_new"] is True
    lines = {line[0]: line[1:] for line in rows(section(page, "training"))}
    fpr = rate(np.mean(linear.predict(train_X)[train_y == 0] == 1)).replace("\u00a0", " ")
    assert lines["FPR at the threshold in use"][0] == fpr


@pytest.mark.parametrize("kind", [np.asarray, np.asfortranarray, sparse.csr_matrix, np.float32])
def test_training_rows_are_found_in_any_container_and_to_seven_digits(linear, kind):
    others, labels = screening(1500, 150, seed=7)
    mixed = np.vstack((others[5:300], X[300:]))
    page = render_report(linear, kind(mixed), Y[5:], training=(others, labels))
    assert "295 of 4,295 rows have the features of a training row" in plain(page)
    page = render_report(linear, kind(X), Y, training=(others, labels))
    assert "None of these rows has the features of a training row" in plain(page)
