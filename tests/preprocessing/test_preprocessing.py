"""Levels that training never saw count as the average, and are counted."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.estimator_checks import parametrize_with_checks

from taufpl import NeymanPearsonClassifier, ScreeningClassifier
from taufpl.exceptions import UnseenValuesWarning
from taufpl.preprocessing import LevelEncoder, TableEncoder, TrainingColumn, UnseenCounter

RNG = np.random.default_rng(0)
TRAINING = pd.DataFrame(
    {
        "city": RNG.choice(["bonn", "oslo", "rome", "rare", "rarer"], 400, p=[0.5, 0.3, 0.17, 0.02, 0.01]),
        "channel": RNG.choice(np.array(["web", "shop", None], dtype=object), 400),
        "count": RNG.integers(0, 3, 400),
    }
)


@parametrize_with_checks([LevelEncoder(), LevelEncoder(sparse_output=False, min_frequency=2, max_categories=4)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("options", [{}, {"min_frequency": 20}, {"max_categories": 3}])
def test_known_levels_are_one_hot(options):
    expected = OneHotEncoder(sparse_output=False, **options).fit_transform(TRAINING)
    encoder = LevelEncoder(**options)
    assert sparse.issparse(encoder.fit_transform(TRAINING))
    np.testing.assert_array_equal(encoder.fit_transform(TRAINING).toarray(), expected)
    np.testing.assert_array_equal(encoder.transform(TRAINING).toarray(), expected)
    dense = LevelEncoder(sparse_output=False, **options).fit(TRAINING)
    np.testing.assert_array_equal(dense.transform(TRAINING), expected)
    assert len(dense.get_feature_names_out()) == expected.shape[1]


@pytest.mark.filterwarnings("ignore::taufpl.exceptions.UnseenValuesWarning")
@pytest.mark.parametrize("is_sparse", [True, False])
def test_unknown_levels_score_as_the_average_training_row(is_sparse):
    encoder = LevelEncoder(min_frequency=20, sparse_output=is_sparse).fit(TRAINING)
    weights = RNG.normal(size=len(encoder.get_feature_names_out()))
    row = TRAINING.iloc[[0]]
    for name, strange in (("city", "paris"), ("city", None), ("count", 9)):
        found = encoder.transform(row.assign(**{name: strange})) @ weights
        # The row with the level of every training row in its turn.
        every = pd.concat([row] * len(TRAINING)).assign(**{name: TRAINING[name].to_numpy()})
        np.testing.assert_allclose(found, np.mean(encoder.transform(every) @ weights), rtol=1e-12)
    # All at once, and a missing value that training had is a level.
    np.testing.assert_allclose(
        encoder.transform(pd.DataFrame({"city": ["x"], "channel": ["y"], "count": [7]})) @ weights,
        np.mean(encoder.transform(TRAINING) @ weights),
    )
    known = encoder.transform(row.assign(channel=None)) @ weights
    assert known != pytest.approx(np.mean(encoder.transform(row.assign(channel="?")) @ weights))


def test_missing_texts_of_a_frame_are_one_level():
    encoder = LevelEncoder(sparse_output=False).fit(TRAINING)
    rows = TRAINING.iloc[:3]
    expected = encoder.transform(rows.assign(channel=None))
    for missing in (np.nan, pd.Series([np.nan, None, pd.NA], dtype=object), pd.Series([None] * 3, dtype="string")):
        np.testing.assert_array_equal(encoder.transform(rows.assign(channel=missing)), expected)


def test_frames_come_out_with_names():
    with config_context(transform_output="pandas"):
        found = LevelEncoder(sparse_output=False).fit_transform(TRAINING[["city"]])
    assert found.columns.tolist() == ["city_bonn", "city_oslo", "city_rare", "city_rarer", "city_rome"]


def told(call, rows):
    """The warnings of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(rows)
    assert {each.category for each in caught} <= {UnseenValuesWarning}
    assert all(each.filename == __file__ for each in caught)
    return [str(each.message) for each in caught]


KINDS = {"pandas": lambda X: X, "polars": pl.from_pandas, "array": lambda X: X.to_numpy(dtype=object)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("encoder", [LevelEncoder(), TableEncoder()], ids=["levels", "table"])
def test_a_transform_warns_once_of_unknown_levels_by_column(encoder, kind):
    texts = TRAINING[["city", "channel"]]
    # An array has no names, and a missing value is no level, whether training had one (channel) or not (city).
    rows = texts.assign(city=texts["city"].str.upper(), channel=[*["post"] * 7, *["fax"] * 3, *texts["channel"][10:]])
    rows.loc[390:, "city"] = None
    encoder, rows, known = encoder.fit(KINDS[kind](texts)), KINDS[kind](rows), KINDS[kind](texts)
    names = ("x0", "x1") if kind == "array" else ("city", "channel")
    (message,) = told(encoder.transform, rows)
    assert message.startswith(
        f"columns hold levels that training never saw: {names[0]!r} in 390 of 400 rows (such as 'BONN'), "
        f"{names[1]!r} in 10 of 400 rows (such as 'post'). They count as the average"
    )
    assert told(encoder.transform, known) == []


def test_of_many_columns_with_unknown_levels_five_are_named():
    encoder = LevelEncoder().fit([["a"] * 7] * 3)
    (message,) = told(encoder.transform, [["b"] * 7] * 2)
    assert "'x4' in 2 of 2 rows (such as 'b') and 2 more columns." in message


@pytest.mark.parametrize("threshold", ["np", "cross", "oob"])
@pytest.mark.parametrize("kind", ["screening", "pipeline"])
def test_prediction_warns_once_and_fits_never(kind, threshold):
    rng = np.random.default_rng(2)
    # Cities with few rows each: those that are held out have some that the others lack.
    X = pd.DataFrame({"city": rng.integers(0, 300, 900).astype(str), "x": rng.normal(size=900)})
    y = (X["x"] + rng.normal(size=900) > 1).astype(int)
    scorer = LogisticRegression()
    options = {"tau": 0.1, "threshold": threshold, "random_state": 0, "insufficient": "infinite"}
    if kind == "screening":
        model = ScreeningClassifier(effort="fast", candidates=[scorer], **options)
    else:
        model = NeymanPearsonClassifier(make_pipeline(TableEncoder(), scorer), **options)
    assert told(lambda X: model.fit(X, y), X) == []
    if threshold == "np":
        assert told(lambda X: model.recalibrate(X, y), X.assign(city="?")) == []
        frozen = NeymanPearsonClassifier(model, 0.1, cv="prefit")
        assert told(lambda X: frozen.fit(X, y), X.assign(city="?")) == []
    for call in (model.decision_function, model.predict, model.decide):
        assert len(told(call, X.assign(city="?"))) == 1


def test_parts_of_a_scorer_do_not_repeat_each_other():
    texts = TRAINING[["city", "channel"]]
    y = np.arange(len(texts)) % 4 == 0
    scorer = CalibratedClassifierCV(make_pipeline(TableEncoder(), LogisticRegression()), cv=3)
    model = NeymanPearsonClassifier(scorer, 0.2, random_state=0, insufficient="infinite").fit(texts, y)
    assert len(told(model.predict, texts.assign(city="?"))) == 1


def counter():
    return UnseenCounter.from_rows(TRAINING.assign(amount=np.linspace(-1, 1, len(TRAINING))))


def test_batches_add_up_to_counts_by_column():
    rows = TRAINING.assign(amount=0.0)
    rows.loc[:9, "city"] = "paris"
    rows.loc[10, "city"] = None
    rows.loc[:4, "amount"] = [-2.0, 5.0, 6.0, np.nan, 1.0]
    found = counter()
    for start in range(0, len(rows), 7):
        found.update(rows.iloc[start : start + 7])
    columns = found.record()["columns"]
    assert found.record()["n_rows"] == len(rows)
    assert (columns["city"]["n_unknown"], columns["city"]["n_missing"]) == (10, 1)
    assert columns["city"]["unknown_levels"] == ["paris"]
    assert columns["city"]["remarkable"] == ["unknown"]
    assert columns["channel"]["n_missing"] == rows["channel"].isna().sum()
    assert columns["channel"]["remarkable"] == []
    amount = columns["amount"]
    assert (amount["n_below"], amount["n_above"], amount["n_missing"]) == (1, 2, 1)
    assert "count" not in columns
    (remark,) = found.remarks()
    assert remark == "city: 10 of 400 rows (2.5%) have a level that training never saw, such as 'paris'"


def test_later_dates_are_no_news_and_missing_ones_are():
    dates = pd.date_range("2024-01-01", periods=400, freq="D")
    found = UnseenCounter.from_rows(TRAINING.assign(when=dates))
    found.update(TRAINING.assign(when=dates + pd.Timedelta(days=400)))
    assert found.remarks() == []
    found.update(TRAINING.assign(when=pd.NaT))
    assert "when: 400 of 800 rows (50%) lack a value; no training row did" in found.remarks()


def test_a_jump_in_missing_values_and_numbers_outside_are_remarked():
    rows = TRAINING.assign(amount=np.where(np.arange(len(TRAINING)) < 60, 3.0, 0.5))
    rows.loc[:200, "channel"] = None
    rows.loc[:50, "count"] = np.nan
    found = counter()
    found.update(rows)
    kinds = {name: each["remarkable"] for name, each in found.record()["columns"].items()}
    assert kinds == {"channel": [], "count": ["missing"], "amount": ["outside"]}
    # Twice the share of a third would be two thirds.
    found.update(rows.assign(channel=None))
    assert "channel" in " ".join(found.remarks())
    assert "no training row" in " ".join(found.remarks())


def test_ordinary_rows_are_not_remarked():
    """Rows drawn as the training rows were: at most one file of 1,000, here none of 300."""
    rng = np.random.default_rng(1)
    for _ in range(300):
        training, new = (_drawn(rng, n) for n in (500, 2000))
        found = UnseenCounter.from_rows(training)
        found.update(new)
        assert found.remarks() == []


def _drawn(rng, n):
    numbers = rng.normal(size=(n, 3))
    numbers[rng.random((n, 3)) < [0.0, 0.01, 0.6]] = np.nan
    return pd.DataFrame(numbers, columns=list("abc"))


def test_a_column_without_values_counts_what_is_missing():
    found = UnseenCounter([TrainingColumn("a", 10, 10)])
    found.update(pd.DataFrame({"a": [1.0, None]}))
    assert found.counts["a"].n_missing == 1
    assert found.remarks() == []
