"""Loaders of the three data sets that the package contains, as compressed text."""

from __future__ import annotations

import gzip
from importlib.resources import files
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from taufpl._extras import require


def load_heart(*, return_X_y: bool = False, as_frame: bool = False) -> Bunch | tuple[Any, Any]:
    """Heart disease (Statlog): 120 patients with it, 150 without, 13 features scaled to [-1, 1].

    LIBSVM's ``heart_scale``, with its order of rows. The set is available in this scaled form only.

    Parameters
    ----------
    return_X_y : bool, default=False
        Return (data, target) alone.
    as_frame : bool, default=False
        Return pandas objects: a frame and a series.

    Returns
    -------
    data : Bunch
        With `data` of shape (270, 13), `target` (1: heart disease), `feature_names`, `target_names`, `frame` (both
        together, None unless `as_frame`) and `DESCR` (what the data are, source and licence). If `return_X_y`, the
        pair (data, target) instead.

    Examples
    --------
    >>> from taufpl.datasets import load_heart
    >>> heart = load_heart()
    >>> heart.data.shape, int(heart.target.sum())
    ((270, 13), 120)
    >>> heart.feature_names[:3]
    ['age', 'sex', 'chest_pain_type']
    """
    return _load("heart", ["healthy", "disease"], return_X_y, as_frame)


def load_breast_cancer(
    *, scaled: bool = True, return_X_y: bool = False, as_frame: bool = False
) -> Bunch | tuple[Any, Any]:
    """Breast cancer, Wisconsin (original): 239 malignant samples, 444 benign ones, 10 features.

    The complete rows of the original, in its order. The first feature is a sample number: it is part of the set as it
    is published and used in studies, and no measurement. This is not scikit-learn's set of the same name.

    Parameters
    ----------
    scaled : bool, default=True
        Scale every feature linearly to [-1, 1], with the very values of LIBSVM's ``breast-cancer_scale``. Otherwise
        sample numbers and grades from 1 to 10, as at the source.
    return_X_y : bool, default=False
        Return (data, target) alone.
    as_frame : bool, default=False
        Return pandas objects: a frame and a series.

    Returns
    -------
    data : Bunch
        With `data` of shape (683, 10), `target` (1: malignant), `feature_names`, `target_names`, `frame` (both
        together, None unless `as_frame`) and `DESCR` (what the data are, source and licence). If `return_X_y`, the
        pair (data, target) instead.

    Examples
    --------
    >>> from taufpl.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X.shape, int(y.sum()), float(X.min()), float(X.max())
    ((683, 10), 239, -1.0, 1.0)
    >>> load_breast_cancer(scaled=False).data[0].astype(int).tolist()
    [1000025, 5, 1, 1, 1, 2, 1, 3, 1, 1]
    """
    return _load("breast_cancer", ["benign", "malignant"], return_X_y, as_frame, scaled=scaled)


def load_spambase(*, return_X_y: bool = False, as_frame: bool = False) -> Bunch | tuple[Any, Any]:
    """Spambase: 1,813 e-mails that are spam, 2,788 that are not, 57 raw features.

    Rows come with all spam first, so that they must be shuffled before they are split in order.

    Parameters
    ----------
    return_X_y : bool, default=False
        Return (data, target) alone.
    as_frame : bool, default=False
        Return pandas objects: a frame and a series.

    Returns
    -------
    data : Bunch
        With `data` of shape (4601, 57), `target` (1: spam), `feature_names`, `target_names`, `frame` (both together,
        None unless `as_frame`) and `DESCR` (what the data are, source and licence). If `return_X_y`, the pair
        (data, target) instead.

    Examples
    --------
    >>> from taufpl.datasets import load_spambase
    >>> spam = load_spambase()
    >>> spam.data.shape, spam.target_names
    ((4601, 57), ['nonspam', 'spam'])
    >>> spam.feature_names[-1], float(spam.data[:, -1].max())
    ('capital_run_length_total', 15841.0)
    """
    return _load("spambase", ["nonspam", "spam"], return_X_y, as_frame)


def _load(
    name: str, target_names: list[str], pair: bool, as_frame: bool, *, scaled: bool = False
) -> Bunch | tuple[Any, Any]:
    folder = files("taufpl.datasets").joinpath("data")
    header, *lines = gzip.decompress(folder.joinpath(f"{name}.csv.gz").read_bytes()).decode("ascii").splitlines()
    table = np.loadtxt(lines, delimiter=",")
    names, X, y = header.split(",")[:-1], np.ascontiguousarray(table[:, :-1]), table[:, -1].astype(np.int64)
    if scaled:
        low, high = X.min(axis=0), X.max(axis=0)
        # LIBSVM's tool prints six digits, and what studies have read is what it printed.
        X = np.char.mod("%.6g", 2.0 * (X - low) / (high - low) - 1.0).astype(np.float64)
    frame = None
    if as_frame:
        frame = require("pandas", "cli", "for as_frame=True").DataFrame(X, columns=names).assign(target=y)
        X, y = frame[names], frame["target"]
    if pair:
        return X, y
    description = folder.joinpath(f"{name}.rst").read_text(encoding="utf-8")
    return Bunch(data=X, target=y, frame=frame, feature_names=names, target_names=target_names, DESCR=description)
