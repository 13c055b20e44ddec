"""Model files: the fitted model, a header that describes it, and a record of the rows that it has seen."""

from __future__ import annotations

import json
import os
import platform
import warnings
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np
import sklearn
from sklearn.exceptions import InconsistentVersionWarning

from taufpl._extras import require
from taufpl._files import write_whole
from taufpl._records import plain, read_record
from taufpl.estimators import ScorerClassifier, ScoreScreen, steps_and_last
from taufpl.exceptions import ModelFileError, ModelVersionWarning
from taufpl.persistence._file_audit import TRUSTED, as_read_here, read_schema, refused_types
from taufpl.persistence._file_records import with_records, without_records
from taufpl.persistence._seen_rows import SeenRows, fingerprint
from taufpl.persistence._state_checks import check_state
from taufpl.persistence._unwrap import UnwrappedModel, unwrap

_FORMAT_VERSION = 1
_MAX_BYTES = 2**30
_PURPOSE = "to read and write model files"


@dataclass(frozen=True, slots=True)
class ModelHeader:
    """The header of a model file: versions, time of writing, and a summary of the training.

    Attributes
    ----------
    format_version : int
        Version of the layout of the file.
    library_version, sklearn_version, numpy_version, python_version : str
        Versions with which the file was written.
    created : str
        Time of writing in UTC, in ISO 8601.
    training : dict
        What the model was trained for and what is known of it (:func:`taufpl.persistence.training_summary`), and what
        was added to that when it was saved.
    """

    format_version: int
    library_version: str
    sklearn_version: str
    numpy_version: str
    python_version: str
    created: str
    training: dict[str, Any]


@dataclass(frozen=True, slots=True)
class SavedModel:
    """A model out of a file, and the file's header.

    Attributes
    ----------
    model : estimator
        Fitted, with its preprocessing where it was a pipeline.
    header : ModelHeader
    seen : SeenRows or None
        Record of the rows that the model has seen; None where the file holds none.
    """

    model: Any
    header: ModelHeader
    seen: SeenRows | None = None


def save_model(
    model: Any,
    path: str | os.PathLike[str],
    *,
    training: Mapping[str, Any] | None = None,
    seen: SeenRows | None = None,
    trusted: Iterable[str] = (),
) -> ModelHeader:
    """Write a fitted model into a file that others can load without trusting you.

    The file is a zip archive in the format of skops: descriptions in JSON and arrays, no pickles. It holds the model
    with all that it has learned, its evidence included, and a header. It is written beside `path` and then renamed, so
    that there is never half of it.

    Parameters
    ----------
    model : estimator
        A fitted classifier or ranker of this library, or a pipeline or a search that ends in one. What steps and a
        search around it do to the guarantee stands in the header: they may have seen the held-out negatives.
    path : path-like
        By convention with the suffix ``.skops``. An existing file is replaced.
    training : mapping, default=None
        Entries of the header beside those that come from the model: ``training_summary(model, X, y)`` with the rows
        of each class and the fingerprint of the data, or notes of your own. Plain values only.
    seen : SeenRows, default=None
        Record of all rows that the model and its threshold have seen, for example ``SeenRows(X)``, ten bits a row: with
        it, whoever has the file can tell whether rows are new to the model.
    trusted : iterable of str, default=()
        Full names of types that the model holds beyond those that :func:`load_model` knows. Whoever loads the file must
        name them too.

    Returns
    -------
    ModelHeader

    Raises
    ------
    ModelFileError
        The model holds something that could not be loaded again, a callback for example. Nothing is written then.

    See Also
    --------
    load_model : Reads the file.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from pathlib import Path
    >>> from taufpl import TauFPLClassifier
    >>> from taufpl.persistence import SeenRows, load_model, save_model, training_summary
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], [2000, 200])
    >>> X = rng.normal(size=(2200, 3)) + y[:, np.newaxis]
    >>> model = TauFPLClassifier(tau=0.05, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "screen.skops"
    ...     header = save_model(model, path, training=training_summary(model, X, y), seen=SeenRows(X))
    ...     saved = load_model(path)
    >>> bool(np.array_equal(saved.model.predict(X), model.predict(X))), saved.header.training["n_positive"]
    (True, 200)
    >>> saved.seen.count(X)
    2200
    """
    header, data = model_bytes(model, training=training, seen=seen, trusted=trusted)
    write_whole(path, data)
    return header


def model_bytes(
    model: Any,
    *,
    training: Mapping[str, Any] | None = None,
    seen: SeenRows | None = None,
    trusted: Iterable[str] = (),
) -> tuple[ModelHeader, bytes]:
    """The header and the content of the file that :func:`save_model` writes."""
    skops = require("skops.io", "models", _PURPOSE)
    if callable(getattr(unwrap(model).head, "segments", None)):
        raise ModelFileError(
            "the model cannot be written: its segments come from a function, which no file can hold. Name a column of "
            "X by segments, or set segments=None and give the labels with the rows."
        )
    header = ModelHeader(
        format_version=_FORMAT_VERSION,
        library_version=version("taufpl"),
        sklearn_version=sklearn.__version__,
        numpy_version=np.__version__,
        python_version=platform.python_version(),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        training={**training_summary(model), **plain(training or {})},
    )
    trusted = (trusted,) if isinstance(trusted, str) else tuple(trusted)
    container: dict[str, Any] = {"header": json.dumps(asdict(header))}
    if seen is not None:
        container["seen"] = np.frombuffer(seen.to_bytes(), np.uint8)
    try:
        container["model"] = with_records(model, trusted)
        data = skops.dumps(container, compression=zipfile.ZIP_DEFLATED)
        refused = refused_types(read_schema(data, max_bytes=2**62), trusted)
    except (ModelFileError, TypeError) as error:
        raise ModelFileError(f"the model cannot be written: {error}") from error
    if refused:
        raise ModelFileError(
            f"the model cannot be written: it holds {', '.join(refused)}, which load_model would refuse. Take it out "
            "(a callback by set_params(callback=None)), or name it by trusted, here and when the file is loaded."
        )
    return header, data


def load_model(path: str | os.PathLike[str], *, trusted: Iterable[str] = (), max_bytes: int = _MAX_BYTES) -> SavedModel:
    """Load a model that :func:`save_model` has written.

    The file is read as text and numbers first. Only if every type in it is known (those of this library, the
    estimators of scikit-learn whose loaded state has been audited and what they hold, NumPy's arrays and SciPy's
    sparse matrices) is anything built; no function that the file names is called. LightGBM, XGBoost and CatBoost get
    texts of trees that were checked and written anew. Shapes, whole numbers and indices that compiled code would
    follow are then checked. Whether the model decides well is another matter: a file from a stranger is as good as the
    stranger.

    Parameters
    ----------
    path : path-like
    trusted : iterable of str, default=()
        Full names of further types that may be loaded, such as a transformer of your own, or an estimator of
        scikit-learn whose loaded state is not checked here: for files of somebody you know, since what is loaded into
        such a type may do what it pleases, or end the process.
    max_bytes : int, default=2**30
        Bound on the memory that the content may take.

    Returns
    -------
    SavedModel
        With `model`, `header` and `seen`.

    Raises
    ------
    ModelFileError
        The file is no model file, is damaged, comes from a newer version, or holds types that are not known; the
        message says which.
    OSError
        The file cannot be opened.

    Warns
    -----
    ModelVersionWarning
        The file was written with another version of scikit-learn.

    Examples
    --------
    See :func:`save_model`.
    """
    skops = require("skops.io", "models", _PURPOSE)
    trusted = (trusted,) if isinstance(trusted, str) else tuple(trusted)
    try:
        with open(path, "rb") as file:
            data = file.read(max_bytes + 1)
        schema = read_schema(data, max_bytes)
        header = _read_header(schema)
        data = as_read_here(data, schema)
        refused = refused_types(schema, trusted)
        if refused:
            raise ModelFileError(_refusal(refused))
        model, seen = _build(skops, data, trusted, header, max_bytes)
    except ModelFileError as error:
        raise ModelFileError(f"{os.fspath(path)} cannot be loaded: {error}.") from error.__cause__
    if header.sklearn_version != sklearn.__version__:
        warnings.warn(
            f"{os.fspath(path)} was written with scikit-learn {header.sklearn_version}, and this is "
            f"{sklearn.__version__}: compare decisions on rows that you know, or train and save it anew.",
            ModelVersionWarning,
            stacklevel=2,
        )
    return SavedModel(model, header, seen)


def _refusal(names: list[str]) -> str:
    if all(name.startswith("sklearn.") and not name.startswith("sklearn._") for name in names):
        return (
            f"it holds {', '.join(names)}, whose state is not checked, and nothing of it was loaded; "
            f"load_model(..., trusted={names}) loads it, which is for files of somebody you know: an index in it that "
            "points outside may end the process"
        )
    return (
        f"it holds types that are not known here: {', '.join(names)}. Nothing of it was loaded. If you know them, name "
        "them by trusted"
    )


def _read_header(schema: dict[str, Any]) -> ModelHeader:
    """The header, read from the text alone; refuses versions of the format that are not known here."""
    try:
        content = schema["content"]
        fields = json.loads(json.loads(content["header"]["content"]))
        found = fields["format_version"]
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFileError(
            "it has no header of this library: if skops itself has written it, skops.io.load reads it"
        ) from error
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise ModelFileError(f"its format_version is {found!r}, and the formats that are known begin at 1")
    if found > _FORMAT_VERSION:
        raise ModelFileError(
            f"it is in format {found}, written by taufpl {fields.get('library_version')}; this is taufpl "
            f"{version('taufpl')}, which knows formats up to {_FORMAT_VERSION}. Upgrade taufpl to load it"
        )
    try:
        return read_record(ModelHeader, fields, "its header")
    except ValueError as error:
        raise ModelFileError(str(error)) from error


def _build(
    skops: Any, data: bytes, trusted: tuple[str, ...], header: ModelHeader, max_bytes: int
) -> tuple[Any, SeenRows | None]:
    try:
        with warnings.catch_warnings():
            # One warning for the file says the same as one for every estimator in it.
            warnings.simplefilter("ignore", InconsistentVersionWarning)
            container = skops.loads(data, trusted=[*TRUSTED, *trusted])
        model, seen = without_records(container["model"], max_bytes, trusted), container.get("seen")
        if "layout" in header.training:  # by the command, which divides rows before steps learn: older files do not say
            steps_and_last(model)[1]._steps_divided = True
        check_state(model)
        training_summary(model)
    except ModelFileError:
        raise
    except Exception as error:
        other = header.sklearn_version != sklearn.__version__
        hint = f"; it was written with scikit-learn {header.sklearn_version}, this is {sklearn.__version__}"
        raise ModelFileError(
            f"its content does not make a model ({type(error).__name__}: {error}){hint if other else ''}"
        ) from error
    try:
        return model, None if seen is None else SeenRows.from_bytes(np.asarray(seen, np.uint8).tobytes())
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"its record of the rows that the model has seen cannot be read: {error}") from error


# What a fit may leave behind, as attributes with an underscore after these names.
_FITTED = (
    "reg", "tau_scale", "gamma", "dual_gap", "kernel_gap", "relative_error", "converged", "collapsed",
    "fpr_estimate", "fpr_upper_bound",
)  # fmt: skip
# Fields of Evidence that the summary shows, with "recall" for "tpr".
_EVIDENCE = (
    "tau", "threshold", "tpr_estimate", "tpr_interval", "caveats", "n_negative", "n_false_positive", "guaranteed",
    "rank",
)  # fmt: skip


def training_summary(model: Any, X: Any = None, y: Any = None) -> dict[str, Any]:
    """Tolerance, threshold, evidence, labels and names of a fitted model, as plain values.

    Parameters
    ----------
    model : estimator
        A fitted classifier or ranker of this library, or a pipeline or a search that ends in one.
    X, y : default=None
        The data that it was fitted on: with them come the rows of each class and the `fingerprint`.

    Returns
    -------
    dict
        `model`, `preprocessing` and `scorer` (names of classes), `tau`, `delta`, `threshold_strategy`, `threshold`,
        `fpr_estimate`, `fpr_upper_bound`, `recall_estimate`, `evidence` (one entry a tolerance), `threshold_history`
        (one entry a threshold that was chosen), `negative_label`, `positive_label`, `n_features`, `feature_names`, and
        for rankings `reg`, `tau_scale`, `dual_gap`, `converged` and `collapsed`, and of kernels `gamma`, `kernel_gap`
        and `relative_error`, as far as the model has them. With X and y `n_rows`, `n_negative`, `n_positive` and
        `fingerprint`.

    Examples
    --------
    >>> import numpy as np
    >>> from taufpl import TauFPLClassifier
    >>> from taufpl.persistence import training_summary
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["fine", "fraud"], [2000, 200])
    >>> X = rng.normal(size=(2200, 3)) + (y == "fraud")[:, np.newaxis]
    >>> summary = training_summary(TauFPLClassifier(tau=0.05, pos_label="fraud", random_state=0).fit(X, y), X, y)
    >>> summary["tau"], summary["threshold_strategy"], summary["positive_label"], summary["n_negative"]
    (0.05, 'np', 'fraud', 2000)
    """
    unwrapped = unwrap(model)
    summary = {**_summary_settings(unwrapped), **_summary_results(unwrapped.head)}
    if X is not None and y is not None:
        labels = np.asarray(y)
        summary["n_rows"] = len(labels)
        summary["n_negative"], summary["n_positive"] = (np.sum(labels == each) for each in unwrapped.classes)
        summary["fingerprint"] = fingerprint(X, y)
    return plain(summary)


def _summary_settings(model: UnwrappedModel) -> dict[str, Any]:
    head = model.head
    settings = {
        "model": type(head).__name__,
        "preprocessing": [step if isinstance(step, str) else type(step).__name__ for step in model.steps],
        "tau": getattr(head, "tau", None),
        "delta": getattr(head, "delta", None),
        # A ranker has no strategy of its own: its threshold is that of the training rows.
        "threshold_strategy": getattr(head, "strategy_", getattr(head, "threshold", "train")),
        "threshold": getattr(head, "threshold_", model.threshold),
        "negative_label": model.classes[0],
        "positive_label": model.classes[1],
        "n_features": None if model.known_names is None else len(model.known_names),
        "feature_names": model.known_names if model.named else None,
    }
    if isinstance(head, ScorerClassifier) and not isinstance(head, ScoreScreen):
        settings["scorer"] = type(model.scorers[0].final).__name__
        settings["n_scorers"] = len(model.scorers)
    return settings


def _summary_results(head: Any) -> dict[str, Any]:
    results = {name: getattr(head, f"{name}_") for name in _FITTED if hasattr(head, f"{name}_")}
    evidence = getattr(head, "evidence_", None)
    if evidence is None:
        return results
    several = evidence if isinstance(evidence, tuple) else (evidence,)
    results["recall_estimate"] = min(several, key=lambda each: each.tau).tpr_estimate
    results["evidence"] = [
        {name.replace("tpr", "recall"): getattr(each, name) for name in _EVIDENCE} for each in several
    ]
    results["threshold_history"] = [asdict(each) for each in getattr(head, "threshold_history_", ())]
    return results
