"""Thresholds on scores that somebody else has computed."""

import re
import sqlite3
import warnings

import duckdb
import numpy as np
import onnxruntime
import pandas as pd
import polars as pl
import pytest
from scipy import sparse, stats

from taufpl import ScoreScreen
from taufpl.exceptions import PositiveLabelWarning, RepeatedRowsWarning, UnseenSegmentWarning
from taufpl.persistence import load_model, save_model, to_json, to_onnx, to_sql

TAU, DELTA = 0.05, 0.05
RNG = np.random.default_rng(0)
Y = RNG.permutation(np.repeat([0, 1], [1000, 100]))
SCORES = RNG.poisson(np.where(Y == 1, 9.0, 4.0)) / 8  # ties everywhere, the threshold among them
FRAME = pd.DataFrame({"case": np.arange(Y.size), "model_score": SCORES, "fraud": Y})


def order_statistic(negatives, tau=TAU, delta=DELTA):
    """The threshold by the definition: the smallest rank whose failure has a probability of at most delta."""
    ranks = np.arange(1, negatives.size + 1)
    good = ranks[stats.binom.sf(ranks - 1, negatives.size, 1 - tau) <= delta]
    return np.sort(negatives)[good[0] - 1]


def test_all_negatives_choose_and_positives_tell_the_recall():
    screen = ScoreScreen(tau=TAU, delta=DELTA).fit(SCORES, Y)
    threshold = order_statistic(SCORES[Y == 0])
    evidence = screen.evidence_
    assert screen.threshold_ == evidence.threshold == threshold
    assert (evidence.n_negative, evidence.n_positive, evidence.guaranteed) == (1000, 100, True)
    assert evidence.n_false_positive == np.sum(SCORES[Y == 0] > threshold)
    caught = int(np.sum(SCORES[Y == 1] > threshold))
    assert evidence.n_true_positive == caught
    assert evidence.tpr_interval[0] == pytest.approx(stats.beta.ppf(DELTA / 2, caught, 101 - caught))
    # Ties with the threshold are negative, to the last digit.
    near = np.array([np.nextafter(threshold, -1), threshold, np.nextafter(threshold, 9)])
    assert screen.predict(near).tolist() == [0, 0, 1]
    assert (screen.decision_function(near) > 0).tolist() == [False, False, True]


def test_low_scores_mirror_high_ones():
    high = ScoreScreen(tau=[0.1, TAU]).fit(SCORES, Y)
    low = ScoreScreen(tau=[0.1, TAU], higher_is_positive=False).fit(-SCORES, Y)
    assert low.threshold_ == -high.threshold_ == -low.evidence_[1].threshold
    assert np.array_equal(low.decide(-SCORES), high.decide(SCORES))
    assert np.array_equal(low.decision_function(-SCORES), high.decision_function(SCORES))
    assert low.predict([low.threshold_, np.nextafter(low.threshold_, -9)]).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("column", "X"),
    [
        (None, SCORES.tolist()),
        (None, FRAME["model_score"]),
        (None, FRAME[["model_score"]]),
        (None, pl.Series("model_score", SCORES)),
        ("model_score", FRAME),
        ("model_score", pl.from_pandas(FRAME)),
        ("model_score", SCORES[:, np.newaxis]),
        ("model_score", FRAME.convert_dtypes()),
        (-2, FRAME.to_numpy()),
        (1, np.column_stack([np.full(Y.size, "EU", dtype=object), SCORES])),
    ],
    ids=lambda value: type(value).__name__,
)
def test_scores_come_in_many_forms(column, X):
    screen = ScoreScreen(column, TAU).fit(X, Y)
    assert screen.threshold_ == order_statistic(SCORES[Y == 0])
    assert np.array_equal(screen.predict(X), screen.threshold_ < SCORES)


def test_columns_may_come_and_go():
    screen = ScoreScreen("model_score", TAU).fit(FRAME, Y)
    assert screen.feature_names_in_.tolist() == ["model_score"]
    other = pd.DataFrame({"anything": "x", "model_score": SCORES})
    for X in (other, SCORES, SCORES.reshape(-1, 1)):
        assert np.array_equal(screen.predict(X), screen.predict(FRAME))
    unnamed = ScoreScreen(tau=TAU).fit(FRAME["model_score"], Y)
    assert np.array_equal(unnamed.predict(other), screen.predict(FRAME))


@pytest.mark.parametrize(
    ("screen", "X", "y", "message"),
    [
        (ScoreScreen(), np.where(np.arange(Y.size) == 7, np.nan, SCORES), Y, "1 of 1,100 are NaN or infinite.*row 7"),
        (ScoreScreen(), np.where(Y == 1, np.inf, SCORES), Y, "100 of 1,100 are NaN or infinite, the first is inf"),
        (ScoreScreen(), SCORES.astype(str), Y, "scores must be numbers; got '"),
        (ScoreScreen(), pd.Series(pd.date_range("2024", periods=Y.size)), Y, "scores must be numbers"),
        (ScoreScreen(), FRAME, Y, "X has 3 columns: name that of the scores by column="),
        (ScoreScreen(), np.zeros((Y.size, 2)), Y, "one score a row; got shape"),
        (ScoreScreen("score"), FRAME, Y, "no column 'score', which column= names. Did you mean 'model_score'?"),
        (ScoreScreen("a"), FRAME.set_axis(["a", "b", "a"], axis=1), Y, "has 2 columns 'a'"),
        (ScoreScreen(3), FRAME.to_numpy(), Y, "column=3 is no position of a column: X has 3 columns"),
        (ScoreScreen(), SCORES, np.zeros(Y.size, int), "one class only, 0.*pos_label"),
        (ScoreScreen(pos_label=1), SCORES, np.ones(Y.size, int), "one class only, 1.*give negatives"),
        (ScoreScreen(pos_label=2), SCORES, Y, "pos_label must be one of the labels"),
        (ScoreScreen(), SCORES, Y[:-1], "one label a score, 1100; got 1099"),
        (ScoreScreen(), SCORES[:50], Y[:50], "needs at least 299 negatives that the scorer has not seen, got 4"),
        (ScoreScreen(), [], [], "there are no scores"),
        (ScoreScreen(tau=1.0), SCORES, Y, "must be a float in the range"),
    ],
)  # fmt: skip
def test_bad_uses_end_with_a_sentence(screen, X, y, message):
    with pytest.raises(ValueError, match=message):
        screen.fit(X, y)


def test_sparse_scores_are_refused():
    with pytest.raises(TypeError, match="dense"):
        ScoreScreen().fit(sparse.csr_array(SCORES[:, np.newaxis]), Y)


def test_what_a_fitted_screen_refuses():
    screen = ScoreScreen("model_score", TAU).fit(FRAME, Y)
    with pytest.raises(ValueError, match="first is nan in row 1"):
        screen.predict([0.5, np.nan])
    with pytest.raises(ValueError, match="no column 'model_score'"):
        screen.predict(FRAME.rename(columns={"model_score": "Score"}))
    with pytest.raises(ValueError, match="needs at least 59 negatives"):
        screen.recalibrate(SCORES[:20])


def test_negatives_alone_and_too_few_of_them():
    alone = ScoreScreen(tau=TAU, pos_label=1).fit(SCORES[Y == 0], Y[Y == 0])
    assert alone.threshold_ == order_statistic(SCORES[Y == 0])
    assert alone.evidence_.tpr_estimate is None
    nobody = ScoreScreen(insufficient="infinite", higher_is_positive=False).fit(SCORES[:50], Y[:50])
    assert nobody.threshold_ == -np.inf
    assert not nobody.predict(SCORES).any()
    with pytest.warns(PositiveLabelWarning, match="'fraud' is taken"):
        ScoreScreen(tau=TAU).fit(SCORES, np.where(Y == 1, "fraud", "fine"))


def leaves(n, rng):
    """Scores of a small forest: few values of many digits."""
    values = np.random.default_rng(7).normal(size=(3, 8))
    return values[np.arange(3)[:, None], rng.choice(8, (3, n), p=[0.5, 0.2, 0.1, 0.1, 0.04, 0.03, 0.02, 0.01])].sum(0)


@pytest.mark.parametrize(
    "draw",
    [
        *(lambda n, rng, digits=digits: np.round(rng.beta(1, 8, n), digits) for digits in (1, 2, 3, 4, 6)),
        lambda n, rng: rng.integers(300, 850, n),
        lambda n, rng: rng.random(n).astype(np.float16),
        lambda n, rng: np.where(rng.random(n) < 0.3, rng.integers(0, 2, n), rng.random(n)),
        leaves,
    ],
)
def test_repeated_scores_are_no_repeated_rows(draw):
    rng = np.random.default_rng(1)
    for _ in range(20):
        scores = draw(2000, rng)
        assert ScoreScreen(tau=TAU, pos_label=1).fit(scores, np.zeros(2000, int)).evidence_.guaranteed


def test_rows_that_were_written_twice_are_found():
    twice, y = np.repeat(np.random.default_rng(0).normal(size=1000), 2), np.zeros(2000, int)
    with pytest.warns(RepeatedRowsWarning, match="2,000 of 2,000 negatives repeat exactly"):
        screen = ScoreScreen(tau=TAU, pos_label=1).fit(twice, y)
    assert not screen.evidence_.guaranteed
    by_group = ScoreScreen(tau=TAU, pos_label=1, random_state=0).fit(twice, y, groups=np.repeat(np.arange(1000), 2))
    assert (by_group.evidence_.guaranteed, by_group.evidence_.n_negative) == (True, 1000)
    assert by_group.threshold_ == order_statistic(twice[::2])


def test_the_guarantee_holds_for_discrete_and_continuous_scores():
    rng, n_draws, y = np.random.default_rng(3), 500, np.zeros(400, int)
    for draw, true_fpr in (
        (rng.standard_normal, stats.norm.sf),
        (lambda n: rng.poisson(6.0, n), stats.poisson(6.0).sf),
    ):
        thresholds = [ScoreScreen(tau=TAU, pos_label=1).fit(draw(400), y).threshold_ for _ in range(n_draws)]
        n_broken = int(np.sum(true_fpr(np.array(thresholds)) > TAU))
        # More broken promises than this have a probability of 0.1 %, if each is broken with probability delta.
        assert n_broken <= stats.binom.ppf(0.999, n_draws, DELTA)
        if draw is rng.standard_normal:  # and none is wasted: 400 negatives leave 12 above the threshold
            assert n_broken >= stats.binom.ppf(0.001, n_draws, stats.beta.sf(TAU, 13, 388))


def test_recalibrate():
    screen = ScoreScreen("model_score", TAU).fit(FRAME, Y)
    later = FRAME.assign(model_score=FRAME["model_score"] + 0.25)
    screen.recalibrate(later, Y)
    assert screen.threshold_ == order_statistic(SCORES[Y == 0]) + 0.25
    assert screen.evidence_.n_true_positive == np.sum(SCORES[Y == 1] + 0.25 > screen.threshold_)


@pytest.mark.parametrize("higher", [True, False])
@pytest.mark.parametrize("name", ["model_score", "score", 'a "b"'])
def test_exports_decide_as_the_screen_does_at_the_threshold(higher, name, tmp_path):
    frame = pd.DataFrame({"case": np.arange(Y.size), name: SCORES if higher else -SCORES})
    labels = np.where(Y == 1, "fraud", "fine")
    screen = ScoreScreen(name, TAU, higher_is_positive=higher, pos_label="fraud").fit(frame, labels)
    save_model(screen, tmp_path / "screen.skops")
    screen = load_model(tmp_path / "screen.skops").model
    near = np.nextafter(screen.threshold_, [-99, screen.threshold_, 99])
    frame = pd.DataFrame({name: np.append(frame[name], near)})
    expected = screen.predict(frame)
    assert {*expected[-3:]} == {"fraud", "fine"}
    condition = to_sql(screen)
    quoted = name.replace('"', '""')
    assert condition == f'"{quoted}" {">" if higher else "<"} {screen.threshold_}E0'
    assert to_sql(screen, dialect="tsql").startswith(f"[{name}] ")
    query = to_sql(screen, table="events")
    assert f'CASE WHEN "taufpl_source".{condition} THEN' in query
    with sqlite3.connect(":memory:") as lite:
        frame.to_sql("events", lite, index=False)
        found = pd.read_sql(query, lite)
    lite.close()
    with duckdb.connect() as duck:
        duck.register("events", frame)
        other = duck.execute(query).df()
        assert duck.execute(f'SELECT {condition} FROM (SELECT NULL::DOUBLE AS "{quoted}")').fetchone() == (None,)
    for table in (found, other):
        assert np.array_equal(table["taufpl_label"], expected)
        assert np.array_equal(table["taufpl_score"], screen.decision_function(frame))
    form = to_json(screen)
    raw = form["intercept"] + form["weights"][name] * frame[name]
    assert np.array_equal(raw - form["threshold"] > 0, expected == "fraud")
    session = onnxruntime.InferenceSession(to_onnx(screen, frame).SerializeToString())
    feed = {"X" if name == "score" else name: frame[[name]].to_numpy()}
    assert np.array_equal(session.run(["label"], feed)[0], expected)


def test_exports_of_a_position():
    X = np.column_stack([np.full(Y.size, np.nan), SCORES])
    screen = ScoreScreen(-1, TAU).fit(X, Y)
    assert to_sql(screen).startswith('"x1" > ')
    session = onnxruntime.InferenceSession(to_onnx(screen, X).SerializeToString())
    assert np.array_equal(session.run(["label"], {"X": X})[0], screen.predict(X))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "ScoreScreen" in to_json(screen)["model"]


def in_segments():
    """Scores whose negatives lie elsewhere in every segment; small segments cannot have a limit of their own."""
    rng, country = np.random.default_rng(0), np.repeat(["EU", "US", "FO", "GL"], [3000, 1500, 70, 70])
    shift = pd.Series(country).map({"EU": 0.0, "US": 2.0}).fillna(-1.0).to_numpy()
    y = (rng.random(country.size) < 0.1).astype(int)
    score = np.round(rng.normal(size=country.size) + shift + 2 * y, 1)
    return pd.DataFrame({"country": country, "model_score": score, "other": 0.0}), y


def test_every_segment_has_its_order_statistic():
    frame, y = in_segments()
    taus = {"EU": 0.02, "others": TAU}
    screen = ScoreScreen("model_score", taus, segments="country").fit(frame, y)
    found, own = screen.segments_, dict(zip(("EU", "US", "others"), (0.02, TAU, TAU), strict=True))
    limit = frame["country"].replace({"FO": "others", "GL": "others"})
    assert found.limits == tuple(own)
    for name, evidence in zip(found.limits, found.evidence, strict=True):
        negatives = frame["model_score"][(limit == name) & (y == 0)].to_numpy()
        assert evidence.delta == pytest.approx(1 - (1 - DELTA) ** (1 / 3))
        assert evidence.threshold == order_statistic(negatives, own[name], evidence.delta)
        assert screen.predict(frame)[limit == name].tolist() == (
            (frame["model_score"][limit == name] > evidence.threshold).astype(int).tolist()
        )
    assert screen.threshold_ == max(each.threshold for each in found.evidence)
    assert screen.feature_names_in_.tolist() == ["model_score", "country"]


def test_segments_in_other_forms_and_low_scores(tmp_path):
    frame, y = in_segments()
    screen = ScoreScreen("model_score", TAU, segments="country").fit(frame, y)
    given = ScoreScreen(tau=TAU).fit(frame["model_score"], y, segments=frame["country"])
    by_place = ScoreScreen(1, TAU, segments=0).fit(frame.to_numpy(), y)
    low = ScoreScreen("model_score", TAU, segments="country", higher_is_positive=False)
    mirrored = frame.assign(model_score=-frame["model_score"])
    expected = screen.predict(frame)
    assert np.array_equal(given.predict(frame["model_score"], segments=frame["country"]), expected)
    assert np.array_equal(by_place.predict(frame.to_numpy()), expected)
    assert np.array_equal(low.fit(mirrored, y).predict(mirrored), expected)
    assert low.threshold_ == -screen.threshold_
    save_model(low, tmp_path / "screen.skops")
    assert np.array_equal(load_model(tmp_path / "screen.skops").model.predict(mirrored), expected)
    screen.recalibrate(frame.assign(model_score=frame["model_score"] + 3), y)
    assert np.array_equal(screen.predict(frame.assign(model_score=frame["model_score"] + 3)), expected)
    with pytest.warns(UnseenSegmentWarning, match="1 of 2 rows.*'DE'"):
        unseen = screen.predict(pd.DataFrame({"country": ["DE", "US"], "model_score": [screen.threshold_ + 0.1] * 2}))
    assert unseen.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("screen", "options", "message"),
    [
        (ScoreScreen("model_score", segments="contry"), {}, "is no column of X. Did you mean 'country'?"),
        (ScoreScreen("model_score", {"EU": 0.01}, segments="country"), {}, "it has none for 'FO', 'GL', 'US'"),
        (ScoreScreen("model_score", {"EU": 0.01}), {}, "nothing says of which segment a row is"),
        (ScoreScreen("model_score", segments=0), {}, "give two positions, or two names"),
        (ScoreScreen("model_score", [0.1, 0.2]), {"segments": np.zeros(4640)}, "tau must be a number"),
    ],
)  # fmt: skip
def test_bad_segments_end_with_a_sentence(screen, options, message):
    frame, y = in_segments()
    with pytest.raises(ValueError, match=re.escape(message)):
        screen.fit(frame, y, **options)


@pytest.mark.parametrize("widths", [("f8", "f4"), ("f4", "f8")])
@pytest.mark.parametrize("tau", [0.05, 0.1, 0.2])
def test_ties_stay_ties_in_another_precision(widths, tau):
    rng = np.random.default_rng(0)
    known, new = np.round(rng.beta(1, 2, 5000), 1), np.round(rng.beta(1, 2, 50_000), 1)
    screen = ScoreScreen(tau=tau, pos_label=1).fit(known.astype(widths[0]), np.zeros(5000, int))
    for each in (new, new.astype("f4"), new.astype(widths[1])):
        np.testing.assert_array_equal(screen.predict(each), new > np.round(screen.threshold_, 1))
    assert screen.threshold_ == pytest.approx(np.round(screen.threshold_, 1), rel=1e-7)


@pytest.mark.parametrize("steps", [30, 32, 2.0**16])
def test_ties_of_single_precision_stay_below_the_threshold_everywhere(steps):
    rng = np.random.default_rng(0)
    single = (np.round(rng.beta(1, 2, 4000) * 30) / steps).astype("f4")
    screen = ScoreScreen(tau=0.05, pos_label=1).fit(single, np.zeros(4000, int))
    doubles = np.round(single.astype("f8") * steps) / steps
    flagged = screen.predict(single)
    for each in (single.astype("f8"), doubles):
        np.testing.assert_array_equal(screen.predict(each), flagged)
        np.testing.assert_array_equal(each > screen.threshold_, flagged)


def test_masked_scores_are_refused():
    masked = np.ma.masked_array(np.arange(500.0), mask=np.arange(500) % 3 == 0)
    with pytest.raises(TypeError, match="masked"):
        ScoreScreen(tau=0.05, pos_label=1).fit(masked, np.zeros(500, int))
