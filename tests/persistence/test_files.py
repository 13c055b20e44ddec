"""Model files: what goes in comes out, with its header, and a file is there as a whole or not at all."""

import errno
import json
import os
import pickle
import re
import stat
import warnings
from dataclasses import asdict, fields
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
import sklearn
from scipy import sparse, special
from sklearn.base import clone
from sklearn.exceptions import InconsistentVersionWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import taufpl
from estimator_cases import ScoreItself
from persistence_cases import (
    FRAME,
    FRAME_Y,
    FRESH,
    FRESH_Y,
    MODELS,
    NAMES,
    X,
    Y,
    columns,
    edit_header,
    guarded,
    rewrite,
)
from taufpl import NeymanPearsonClassifier, TauFPLClassifier, TauFPLRanker
from taufpl.estimators.strategies import Automatic
from taufpl.exceptions import ModelFileError, ModelVersionWarning
from taufpl.persistence import fingerprint, load_model, save_model, training_summary
from taufpl.thresholding import Evidence, HeldOut, OutOfBootstrap, Rounds

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="module")
def small():
    return TauFPLClassifier(0.05, reg=0.1, tau_scale=1.0, random_state=0).fit(X, Y)


@pytest.fixture
def saved(small, tmp_path):
    path = tmp_path / "model.skops"
    save_model(small, path)
    return path


def same(left, right):
    """Equal in all fields, arrays and NaN included."""
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and np.array_equal(left, right, equal_nan=left.dtype.kind == "f")
    if sparse.issparse(left):
        return type(left) is type(right) and same(left.toarray(), right.toarray())
    if isinstance(left, tuple | list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if hasattr(left, "__dataclass_fields__"):
        return type(left) is type(right) and all(
            same(getattr(left, f.name), getattr(right, f.name)) for f in fields(left)
        )
    return left == right or (left != left and right != right)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_comes_back_as_it_was(name, tmp_path):
    model, path = MODELS[name](), tmp_path / "model.skops"
    save_model(model, path)
    again = load_model(path).model
    data = sparse.csr_matrix(FRESH) if name.startswith("sparse") else FRESH
    assert np.array_equal(again.decision_function(data), model.decision_function(data))
    assert np.array_equal(again.predict(data), model.predict(data))
    head, twin = (each[-1] if name == "pipeline" else each for each in (model, again))
    fitted = [key for key in vars(head) if key.endswith("_") and not key.startswith("estimator")]
    assert len(fitted) >= 7
    assert all(same(getattr(head, key), getattr(twin, key)) for key in fitted)
    clone(again)


@pytest.mark.parametrize("name", ["classifier", "out of bootstrap", "two tolerances", "support vectors"])
def test_a_loaded_model_can_be_recalibrated(name, tmp_path):
    model, path = MODELS[name](), tmp_path / "model.skops"
    save_model(model, path)
    again, before = load_model(path).model, model.threshold_
    negative = FRESH[FRESH_Y == 0]
    model.recalibrate(negative)
    again.recalibrate(negative)
    assert model.threshold_ != before
    assert same(again.evidence_, model.evidence_)
    assert np.array_equal(again.predict(FRESH), model.predict(FRESH))


def test_a_pipeline_on_a_frame_travels_with_its_preprocessing(tmp_path):
    model = make_pipeline(columns(), TauFPLClassifier(0.05, reg=0.1, tau_scale=20.0, random_state=0)).fit(
        FRAME, FRAME_Y
    )
    header = save_model(model, tmp_path / "model.skops", training=training_summary(model, FRAME, FRAME_Y))
    saved = load_model(tmp_path / "model.skops")
    assert np.array_equal(saved.model.decision_function(FRAME), model.decision_function(FRAME))
    assert saved.header == header
    assert header.training["preprocessing"] == ["ColumnTransformer"]
    assert header.training["feature_names"] == list(FRAME.columns)
    assert header.training["fingerprint"] == fingerprint(FRAME, FRAME_Y)


def test_the_header_says_where_a_file_comes_from(small, tmp_path):
    save_model(small, tmp_path / "model.skops", training={"note": "on call", "n_rows": np.int64(3)})
    header = load_model(tmp_path / "model.skops").header
    assert header.format_version == 1
    assert header.library_version == taufpl.__version__
    assert (header.sklearn_version, header.numpy_version) == (sklearn.__version__, np.__version__)
    assert abs((datetime.now().astimezone() - datetime.fromisoformat(header.created)).total_seconds()) < 600
    assert header.training["note"] == "on call"
    assert header.training["n_rows"] == 3
    assert header.training["tau"] == 0.05
    with pytest.raises(TypeError, match="got object"):
        save_model(small, tmp_path / "other.skops", training={"note": object()})


def test_summaries_tell_what_is_known():
    settings = {"reg": 0.1, "tau_scale": 1.0, "threshold": "np", "pos_label": "fraud", "random_state": 0}
    model = TauFPLClassifier(0.05, **settings).fit(X, NAMES)
    summary = training_summary(model, X, NAMES)
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert summary["model"] == "TauFPLClassifier"
    assert (summary["negative_label"], summary["positive_label"]) == ("fine", "fraud")
    assert (summary["n_rows"], summary["n_negative"], summary["n_positive"]) == (900, np.sum(Y == 0), np.sum(Y == 1))
    assert summary["threshold"] == model.threshold_
    assert (summary["fpr_estimate"], summary["fpr_upper_bound"]) == (model.fpr_estimate_, model.fpr_upper_bound_)
    assert summary["evidence"][0]["guaranteed"] is True
    assert summary["evidence"][0]["n_negative"] == model.evidence_.n_negative
    assert summary["feature_names"] is None
    assert summary["fingerprint"] == fingerprint(X, NAMES)
    unknown = {"n_rows", "n_negative", "n_positive", "fingerprint"}
    assert unknown.isdisjoint(training_summary(model, X))
    assert unknown.isdisjoint(training_summary(model, y=NAMES))
    assert not {"scorer", "n_scorers"} & summary.keys()


def test_summaries_of_other_models():
    several = NeymanPearsonClassifier(LogisticRegression(), [0.2, 0.1], threshold="cross", random_state=0).fit(X, Y)
    summary = training_summary(several)
    assert summary["tau"] == [0.2, 0.1]
    assert (summary["scorer"], summary["n_scorers"]) == ("LogisticRegression", 1)
    assert [each["tau"] for each in summary["evidence"]] == [0.2, 0.1]
    assert summary["recall_estimate"] == several.evidence_[1].tpr_estimate
    ranker = TauFPLRanker(0.05).fit(X, Y)
    summary = training_summary(ranker)
    assert summary["threshold_strategy"] == "train"
    assert summary["threshold"] == -ranker.intercept_[0]
    assert summary["collapsed"] is False
    search = GridSearchCV(TauFPLRanker(0.05), {"reg": [0.1, 0.01]}, cv=2).fit(X, Y)
    assert training_summary(search)["model"] == "TauFPLRanker"


def test_only_fitted_models_of_this_library_are_saved(tmp_path):
    with pytest.raises(TypeError, match="got LogisticRegression"):
        save_model(LogisticRegression().fit(X, Y), tmp_path / "model.skops")
    with pytest.raises(NotFittedError):
        save_model(TauFPLClassifier(), tmp_path / "model.skops")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "holder",
    [
        lambda: TauFPLRanker(0.05, callback=print).fit(X, Y),
        lambda: TauFPLRanker(0.05, callback=[].append).fit(X, Y),
        lambda: TauFPLRanker(0.05, callback=lambda record: None).fit(X, Y),
        lambda: guarded(ScoreItself()).fit(X, Y),
    ],
)
def test_what_could_not_be_loaded_is_not_written(holder, tmp_path):
    with pytest.raises(ModelFileError, match="the model cannot be written"):
        save_model(holder(), tmp_path / "model.skops")
    assert not list(tmp_path.iterdir())


def test_types_of_the_user_can_be_trusted_by_name(tmp_path):
    model, path, name = guarded(ScoreItself()).fit(X, Y), tmp_path / "model.skops", "estimator_cases.ScoreItself"
    save_model(model, path, trusted=[name])
    with pytest.raises(ModelFileError, match=name):
        load_model(path)
    for trusted in (name, [name], {name, "another.Type"}):
        assert np.array_equal(load_model(path, trusted=trusted).model.predict(FRESH), model.predict(FRESH))


@pytest.mark.parametrize("function", [np.tanh, special.expit])
def test_functions_of_numpy_and_scipy_travel(function, tmp_path):
    model = make_pipeline(FunctionTransformer(function), TauFPLRanker(0.05)).fit(X, Y)
    save_model(model, tmp_path / "model.skops")
    again = load_model(tmp_path / "model.skops").model
    assert np.array_equal(again.decision_function(FRESH), model.decision_function(FRESH))


def test_another_version_of_scikit_learn_is_said_once(saved, small):
    rewrite(saved, edit_header(sklearn_version="1.2.3"))
    with pytest.warns(ModelVersionWarning, match=r"written with scikit-learn 1\.2\.3, and this is") as caught:
        model = load_model(saved).model
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert np.array_equal(model.predict(FRESH), small.predict(FRESH))


def test_scikit_learns_own_warning_is_not_repeated(tmp_path):
    save_model(MODELS["pipeline"](), tmp_path / "model.skops")

    def age(schema):
        text = json.dumps(schema).replace(json.dumps(json.dumps(sklearn.__version__)), json.dumps(json.dumps("1.2.3")))
        assert text.count('"\\"1.2.3\\""') >= 2
        aged = json.loads(text)
        edit_header(sklearn_version="1.2.3")(aged)
        return aged

    rewrite(tmp_path / "model.skops", age)
    with pytest.warns(ModelVersionWarning) as caught:
        load_model(tmp_path / "model.skops")
    assert not any(issubclass(each.category, InconsistentVersionWarning) for each in caught)


def test_a_newer_format_asks_for_an_upgrade(saved):
    rewrite(saved, edit_header(format_version=2, library_version="9.1"))
    with pytest.raises(ModelFileError, match=r"in format 2, written by taufpl 9\.1.*Upgrade taufpl"):
        load_model(saved)


@pytest.mark.parametrize("found", [0, True, "1", 1.5])
def test_a_format_that_never_was_is_refused(saved, found):
    rewrite(saved, edit_header(format_version=found))
    with pytest.raises(ModelFileError, match="format_version is"):
        load_model(saved)


def test_a_header_with_gaps_is_refused(saved):
    rewrite(saved, edit_header(numpy_version=None))
    with pytest.raises(ModelFileError, match="lacks 'numpy_version'"):
        load_model(saved)


def test_files_of_format_1_keep_loading():
    """Made once by save_model, and never again: if this fails, old files of users fail too."""
    expected = json.loads((DATA / "model-v1.json").read_text())
    with warnings.catch_warnings():
        # It was written by one version of scikit-learn, and is read by all.
        warnings.simplefilter("ignore", ModelVersionWarning)
        saved = load_model(DATA / "model-v1.skops")
    data = np.array(expected["rows"])
    assert saved.header.format_version == 1
    assert saved.header.training["fingerprint"] == expected["fingerprint"]
    assert np.allclose(saved.model.decision_function(data), expected["decisions"], rtol=1e-12, atol=1e-12)
    assert saved.model.predict(data).tolist() == expected["labels"]
    assert set(expected["labels"]) == {"fine", "fraud"}
    evidence = saved.model[-1].evidence_
    assert isinstance(evidence, Evidence)
    assert isinstance(evidence.rounds, Rounds)
    assert evidence.n_negative == expected["n_negative"]
    negative = data[np.array(expected["labels"]) == "fine"]
    saved.model[-1].set_params(insufficient="infinite").recalibrate(saved.model[0].transform(negative))
    assert saved.model[-1].threshold_ == np.inf


@pytest.mark.parametrize(
    ("name", "threshold"),
    [
        (
            "TauFPLClassifier",
            OutOfBootstrap(n_rounds=3, train_share=0.6, rule="quantile", combine="refit"),
        ),
        ("NeymanPearsonClassifier", HeldOut(share=0.4, measure_recall=False)),
        ("ScreeningClassifier", Automatic(HeldOut(share=0.4))),
    ],
)
def test_files_of_0_1_keep_loading(name, threshold):
    """Made once by save_model of 0.1, with the parameters that strategies have now, and never again."""
    expected = json.loads((DATA / "models-0.1.json").read_text())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelVersionWarning)
        model = load_model(DATA / f"{name}-0.1.skops").model
    decisions = model.decision_function(np.array(expected["rows"]))
    np.testing.assert_allclose(decisions, expected[name]["decisions"], rtol=1e-12, atol=1e-12)
    assert model.strategy_ == expected[name]["strategy"]
    assert model.get_params()["threshold"] == clone(model).threshold == threshold
    assert type(model).__name__ in repr(model)
    assert not {"holdout", "n_rounds", "combine"} & vars(model).keys()
    recalibrated = model.recalibrate(np.array(expected["negatives"])).threshold_
    assert recalibrated == pytest.approx(expected[name]["recalibrated"], rel=1e-12)


def test_classes_are_found_where_they_are_now(saved, small):
    """Modules inside this library move; files name the module that a class had when they were written."""

    def move(schema):
        text = json.dumps(schema)
        moved = text.replace(f'"{type(small).__module__}"', '"taufpl.once.upon_a_time"')
        assert moved != text
        return json.loads(moved)

    rewrite(saved, move)
    assert np.array_equal(load_model(saved).model.decision_function(FRESH), small.decision_function(FRESH))
    rewrite(
        saved, lambda schema: json.loads(re.sub(r'"taufpl\.[^"]*"', '"taufpl.once.upon_a_time"', json.dumps(schema)))
    )
    assert np.array_equal(load_model(saved).model.decision_function(FRESH), small.decision_function(FRESH))
    rewrite(saved, lambda schema: json.loads(json.dumps(schema).replace("taufpl.", "evil.")))
    with pytest.raises(ModelFileError, match=rf"not known here: .*evil\.\S*{type(small).__name__}"):
        load_model(saved)


class TestWriting:
    """Whole, or not at all."""

    def test_a_file_that_is_there_is_replaced_and_keeps_its_permissions(self, small, saved):
        saved.write_bytes(b"old")
        saved.chmod(0o640)
        save_model(small, saved)
        assert load_model(saved).model.threshold_ == small.threshold_
        if os.name == "posix":
            assert stat.S_IMODE(saved.stat().st_mode) == 0o640
        assert list(saved.parent.iterdir()) == [saved]

    @pytest.mark.skipif(os.name != "posix", reason="links need a right of their own elsewhere")
    def test_a_link_is_followed(self, small, saved, tmp_path):
        link = tmp_path / "link.skops"
        link.symlink_to(saved)
        saved.write_bytes(b"old")
        save_model(small, link)
        assert link.is_symlink()
        assert load_model(saved).model.threshold_ == small.threshold_

    @pytest.mark.parametrize("where", ["fsync", "replace"])
    @pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
    def test_what_was_there_stays_when_writing_fails(self, small, saved, monkeypatch, where, error):
        def fail(*_):
            assert len(list(saved.parent.iterdir())) == 2
            raise error

        before = saved.read_bytes()
        monkeypatch.setattr(os, where, fail)
        with pytest.raises(type(error)):
            save_model(small, saved)
        assert saved.read_bytes() == before
        assert list(saved.parent.iterdir()) == [saved]

    @pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="folders do not refuse the one who owns all")
    def test_a_folder_that_cannot_be_written_to(self, small, saved):
        saved.parent.chmod(0o500)
        try:
            with pytest.raises(PermissionError):
                save_model(small, saved.parent / "other.skops")
        finally:
            saved.parent.chmod(0o700)
        assert list(saved.parent.iterdir()) == [saved]

    def test_a_folder_that_is_not_there(self, small, tmp_path):
        with pytest.raises(FileNotFoundError):
            save_model(small, tmp_path / "nowhere" / "model.skops")
        with pytest.raises(FileNotFoundError):
            load_model(tmp_path / "model.skops")


class TestStates:
    """Records are written down by the names of their fields."""

    evidence = Evidence(1.0, 0.05, None, 10, 1, 0.1, 0.3, None, False, Rounds(*np.ones((3, 2))), 0.5)

    def test_they_come_back(self):
        again = pickle.loads(pickle.dumps(self.evidence))
        assert same(again, self.evidence)

    def test_a_field_that_is_not_there_takes_its_default(self):
        state = {key: value for key, value in self.evidence.__getstate__().items() if key != "tpr_estimate"}
        again = Evidence.__new__(Evidence)
        again.__setstate__(state)
        assert again.tpr_estimate is None
        assert again.n_negative == 10

    @pytest.mark.parametrize("change", [{"more": 1}, {"tau": None}])
    def test_a_strange_state_is_refused(self, change):
        state = {**self.evidence.__getstate__(), **change}
        state = {key: value for key, value in state.items() if not (key == "tau" and value is None)}
        with pytest.raises(ValueError, match="Evidence must hold"):
            Evidence.__new__(Evidence).__setstate__(state)


def test_headers_are_plain(saved):
    header = load_model(saved).header
    assert json.loads(json.dumps(asdict(header))) == asdict(header)
