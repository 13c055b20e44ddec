"""Reasons: what a column does to a score, told anew by scoring changed rows, and what a model file keeps for it."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix, random as random_sparse
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from cli_cases import command, contents, frame, mixed, succeed, write
from taufpl import KernelTauFPLClassifier, NeymanPearsonClassifier, ScoreScreen, TauFPLClassifier
from taufpl.exceptions import ModelFileError
from taufpl.inspection import Reason, TypicalNegatives, contributions, reasons, typical_negatives
from taufpl.preprocessing import TableEncoder


@pytest.fixture(scope="module")
def payments():
    table = mixed(0, 400, 150).drop(columns=["number", "comment", "empty"])
    return table.drop(columns="y"), table["y"] == "fraud"


def screen(scorer, **options):
    return NeymanPearsonClassifier(make_pipeline(TableEncoder(), scorer), 0.1, random_state=0, **options)


def with_column(X, column, values):
    """Every row, with one value after the other in a column."""
    for value in values:
        yield X.assign(**{column: pd.Series([value] * len(X), index=X.index, dtype=X[column].dtype)})


@pytest.mark.filterwarnings("ignore::taufpl.exceptions.UnseenValuesWarning")
@pytest.mark.parametrize("threshold", ["np", "cross"])
def test_columns_of_a_linear_score_add_up_and_are_means_over_the_negatives(payments, threshold):
    X, y = payments
    model = screen(LogisticRegression(), threshold=threshold).fit(X, y)
    negatives, some = X[~y].head(12), X.tail(6)
    found = contributions(model, some, negatives)
    scores, mean = model.decision_function(some), model.decision_function(negatives).mean()
    np.testing.assert_allclose(found.sum(axis=1), scores - mean, rtol=0, atol=1e-12)
    for place, column in enumerate(X):
        others = [model.decision_function(each) for each in with_column(some, column, negatives[column])]
        np.testing.assert_allclose(found[:, place], scores - np.mean(others, axis=0), rtol=0, atol=1e-12)


def test_other_scores_are_held_against_typical_values_one_column_after_the_other(payments):
    X, y = payments
    model = screen(HistGradientBoostingClassifier(max_iter=20)).fit(X, y)
    some, typical = X.tail(8), typical_negatives(model, X[~y])
    found, scores = contributions(model, some, typical), model.decision_function(some)
    for place, column in enumerate(X):
        others = [model.decision_function(each) for each in with_column(some, column, typical.rows[column])]
        np.testing.assert_allclose(found[:, place], scores - np.mean(others, axis=0), rtol=0, atol=1e-12)
    polars = pytest.importorskip("polars")
    np.testing.assert_array_equal(contributions(model, polars.from_pandas(some), typical), found)
    assert not found[:, list(X).index("same")].any()  # a column that was dropped
    largest = reasons(model, some, typical, 2)
    assert all(len(each) <= 2 and all(reason.change > 0 for reason in each) for each in largest)
    row = int(np.argmax(found.max(axis=1)))
    assert largest[row][0] == Reason(X.columns[found[row].argmax()], some.iloc[row, found[row].argmax()], found.max())


def test_typical_values_are_quantiles_common_levels_and_missing_ones(payments):
    X, y = payments
    model = screen(HistGradientBoostingClassifier(max_iter=5)).fit(X, y)
    rows = pd.DataFrame({name: X[name].iloc[:1].repeat(100) for name in X}).reset_index(drop=True)
    rows["x0"] = np.arange(1.0, 101.0)
    rows["x1"] = [*range(60), *[np.nan] * 40]
    # Four rows with "rare" are too few to be kept, whatever their place in the order.
    rows["city"] = ["bonn"] * 60 + ["oslo"] * 20 + [None] * 16 + ["rare"] * 4
    typical = typical_negatives(model, rows).rows
    assert typical["x0"].tolist() == [11.0, 31.0, 51.0, 71.0, 91.0]
    assert typical["x1"].tolist()[:3] == [10.0, 30.0, 50.0]
    assert typical["x1"].isna().sum() == 2
    assert typical["city"].tolist()[:4] == ["bonn", "bonn", "bonn", "oslo"]
    assert typical["city"].isna().sum() == 1


@pytest.mark.parametrize("scorer", [LogisticRegression(), HistGradientBoostingClassifier(max_iter=5)], ids=type)
def test_a_header_keeps_what_reasons_need(payments, scorer):
    X, y = payments
    model = screen(scorer).fit(X, y)
    typical = typical_negatives(model, X[~y])
    header = SimpleNamespace(training=json.loads(json.dumps(typical.record(), allow_nan=False)))
    read = TypicalNegatives.of_header(header)
    assert read.n_rows == 400
    np.testing.assert_array_equal(contributions(model, X, read), contributions(model, X, typical))
    # One number a column, or five values: nothing of which rows could be put together.
    kept = header.training["typical_negatives"]
    assert len(kept["means"]) in (0, X.shape[1])
    assert all(len(each["numbers"] + each["levels"]) == 5 for each in kept["columns"])


def test_containers_do_not_matter():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [300, 100])
    X = rng.normal(size=(400, 5)) * (rng.random((400, 5)) < 0.8) + 2 * y[:, np.newaxis]
    steps = make_pipeline(StandardScaler(with_mean=False), TauFPLClassifier(0.1, random_state=0)).fit(X, y)
    mixing = make_pipeline(PCA(2), TauFPLClassifier(0.1, random_state=0)).fit(X, y)
    curved = KernelTauFPLClassifier(0.1, reg=0.1, gamma=0.2, random_state=0).fit(X, y)
    for model in (steps, mixing, curved):
        wanted = contributions(model, X[-5:], X[y == 0])
        assert (typical_negatives(model, X).means is None) == (model is not steps)
        for convert in (csr_matrix, np.ndarray.tolist, pd.DataFrame):
            found = contributions(model, convert(X[-5:]), X[y == 0])
            np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)


def test_wide_sparse_rows():
    rng = np.random.default_rng(0)
    X = csr_matrix(random_sparse(500, 3000, 0.01, random_state=0))
    y = (rng.random(500) < 0.1 + 0.8 * (X[:, :100].toarray().sum(axis=1) > 0.5)).astype(int)
    model = TauFPLClassifier(0.2, random_state=0, threshold="np", ranking="paper", reg=0.1).fit(X, y)
    found = reasons(model, X[:20], X[y == 0])
    moves = (X[:20].toarray() - X[y == 0].toarray().mean(axis=0)) * model.coef_
    names = [[reason.column for reason in each] for each in found]
    assert names == [[f"x{place}" for place in np.argsort(-row, kind="stable")[:3]] for row in moves]
    curved = NeymanPearsonClassifier(DecisionTreeClassifier(max_depth=2), 0.2, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=r"not linear in the 3,000 columns.*fit a linear model"):
        reasons(curved, X[:5], X[y == 0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda model, X: reasons(model, X, X, 0), "n_reasons must be at least 1; got 0"),
        (lambda model, X: reasons(model, X[["x1", "x0"]], X), "must have the 2 columns .* in their order"),
        (lambda model, X: reasons(model, X, X.head(0)), "the negatives must be rows"),
        (lambda model, X: reasons(model, X, TypicalNegatives(9, ("x0",), np.zeros(1))), "of another model"),
        (lambda model, X: reasons(LogisticRegression(), X, X), "model must be a ScreeningClassifier"),
        (
            lambda model, X: reasons(ScoreScreen(tau=0.1).fit(X["x0"], X["x1"] > 0), X, X),
            "a ScoreScreen knows one reason",
        ),
        (lambda model, X: TypicalNegatives.of_header(SimpleNamespace(training={})), "no record of typical negatives"),
        (lambda model, X: read(means=[1.0, "2"]), "is not a number but '2'"),
        (lambda model, X: read(means=[1.0, float("nan")]), "a mean that is not a number"),
        (lambda model, X: read(columns=[{"kind": "number", "numbers": [1]}] * 2), "must have 5 values of every"),
        (lambda model, X: read(columns=[{"kind": "code"}] * 2), "a column of the kind 'code'"),
    ],
)
def test_bad_uses_end_with_a_sentence(change, message, plain):
    model, X = plain
    with pytest.raises((ValueError, TypeError, ModelFileError), match=message):
        change(model, X)


@pytest.fixture(scope="module")
def plain():
    table = frame(0)
    X = table[["x0", "x1"]]
    return TauFPLClassifier(0.1, random_state=0).fit(X, table["y"]), X


def read(**entries):
    record = {"n_rows": 9, "names": ["x0", "x1"], **entries}
    return TypicalNegatives.of_header(SimpleNamespace(training={"typical_negatives": record}))


def test_predict_writes_reasons_of_the_rows_that_are_flagged(tmp_path):
    table = mixed(0).rename(columns={"x0": "=cmd"})
    write(table, tmp_path / "train.csv")
    write(mixed(1).rename(columns={"x0": "=cmd"}).assign(reason_1="own"), tmp_path / "new.csv")
    model, out = tmp_path / "m.skops", tmp_path / "out.csv"
    line = ("fit", tmp_path / "train.csv", "--target", "y", "--positive", "fraud", "--tau", 0.1, "-o", model)
    succeed(*line, "--model", "boosting", "--threshold", "np")
    done = succeed("predict", model, tmp_path / "new.csv", "-o", out, "--reasons", 2, "--id", "reason_1")
    assert "the id is written as id_reason_1" in done.err
    found = pd.read_csv(out)
    assert list(found) == ["id_reason_1", "score", "decision", "reason_1", "reason_2"]
    assert (found["reason_1"].notna() == (found["score"] > 0)).all()
    texts = found["reason_1"].dropna()
    assert texts.str.fullmatch(r"'?\S+ (= .+|is missing) \(\+\S+\)").all()
    assert texts.str.startswith("'=cmd = ").any()
    assert not texts.str.startswith("=").any()
    write(mixed(2).rename(columns={"x0": "=cmd"}), tmp_path / "fresh.csv")
    succeed("recalibrate", model, tmp_path / "fresh.csv")
    succeed("predict", model, tmp_path / "new.csv", "-o", tmp_path / "out.parquet", "--reasons", 2)
    again = pd.read_parquet(tmp_path / "out.parquet")
    both = (again["score"] > 0) & (found["score"] > 0)
    before = found["reason_2"][both].fillna("").str.removeprefix("'")
    assert both.any()
    assert (again["reason_2"][both].fillna("") == before).all()


def test_reasons_at_the_command_line_of_files_that_have_none(tmp_path):
    from taufpl.persistence import load_model, save_model

    write(frame(0), tmp_path / "train.svm")
    succeed("fit", tmp_path / "train.svm", "--tau", 0.1, "--model", "linear", "-o", tmp_path / "m.skops")
    line = ("predict", tmp_path / "m.skops", tmp_path / "train.svm", "-o", tmp_path / "out.csv", "--reasons")
    assert pd.read_csv(succeed(*line, 3) and tmp_path / "out.csv")["reason_3"].notna().any()
    saved = load_model(tmp_path / "m.skops")
    training = {name: each for name, each in saved.header.training.items() if name != "typical_negatives"}
    save_model(saved.model, tmp_path / "m.skops", training=training)
    before = contents(tmp_path)
    for n_reasons, code, message in ((3, 1, "Fit the model anew by taufpl fit"), (-1, 2, "greater than or equal to 0")):
        done = command(*line, n_reasons)
        assert done.code == code
        assert message in done.err
        assert "Traceback" not in done.err
    assert contents(tmp_path) == before
