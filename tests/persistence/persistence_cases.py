"""Data, models and hands that change model files, for the tests of persistence."""

import io
import json
import zipfile

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

from taufpl import (
    KernelTauFPLClassifier,
    KernelTauFPLRanker,
    NeymanPearsonClassifier,
    TauFPLClassifier,
    TauFPLRanker,
    TauFPLRankerCV,
)
from taufpl.baselines import TopPush
from taufpl.thresholding import OutOfBootstrap


def rows(n=900, seed=0, d=4):
    """Rows of two clouds, a fifth of them positive."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.2).astype(int)
    return rng.normal(size=(n, d)) + 2.0 * y[:, np.newaxis], y


X, Y = rows()
FRESH, FRESH_Y = rows(500, seed=1)
NAMES = np.where(Y == 1, "fraud", "fine")


def guarded(estimator, **settings):
    return NeymanPearsonClassifier(estimator, 0.05, random_state=0, **settings)


MODELS = {
    "classifier": lambda: TauFPLClassifier(0.05, pos_label="fraud", random_state=np.random.RandomState(0)).fit(
        X, NAMES
    ),
    "paper": lambda: TauFPLClassifier(0.05, ranking="paper", threshold="np", random_state=0, cv=2, regs=3).fit(X, Y),
    "out of bootstrap": lambda: TauFPLClassifier(
        0.05, threshold=OutOfBootstrap(n_rounds=2), delta=None, reg=0.1, tau_scale=1.0, random_state=0
    ).fit(X, Y),
    "float32": lambda: TauFPLClassifier(0.05, reg=0.1, tau_scale=1.0, random_state=0).fit(X.astype(np.float32), Y),
    "sparse": lambda: TauFPLClassifier(0.05, reg=0.1, tau_scale=1.0, random_state=0).fit(sparse.csr_matrix(X), Y),
    "ranker": lambda: TauFPLRanker(0.05, pos_label=0).fit(-X, Y),
    "ranker with search": lambda: TauFPLRankerCV(0.05, [0.1, 0.01], StratifiedKFold(2), max_extensions=0).fit(X, Y),
    "kernel": lambda: KernelTauFPLClassifier(0.05, gamma="median", reg=0.1, pos_label="fraud", random_state=0).fit(
        X, NAMES
    ),
    "kernel ranker": lambda: KernelTauFPLRanker(0.05, n_components=30, random_state=0).fit(X, Y),
    "sparse kernel": lambda: KernelTauFPLClassifier(
        0.05, cv=2, regs=[0.1], n_components=20, threshold="np", random_state=0
    ).fit(sparse.csr_matrix(X), Y),
    "top push": lambda: TopPush().fit(X, Y),
    "two tolerances": lambda: NeymanPearsonClassifier(LogisticRegression(), [0.2, 0.1], random_state=0).fit(X, Y),
    "mean of rounds": lambda: guarded(LogisticRegression(), threshold=OutOfBootstrap(n_rounds=2), delta=None).fit(X, Y),
    "forest": lambda: guarded(RandomForestClassifier(5, random_state=0)).fit(X, Y),
    "boosting": lambda: guarded(HistGradientBoostingClassifier(max_iter=5, max_features=0.5)).fit(X, Y),
    "support vectors": lambda: guarded(SVC()).fit(X, Y),
    "sparse support vectors": lambda: guarded(SVC()).fit(sparse.csr_matrix(X), Y),
    "pipeline": lambda: make_pipeline(
        SimpleImputer(), StandardScaler(), TauFPLClassifier(0.05, reg=0.1, tau_scale=1.0, random_state=0)
    ).fit(X, Y),
}
# These travel as model files alone.
KERNEL_MODELS = [name for name in MODELS if "kernel" in name]


def table(n=1500, seed=0):
    """A frame with the troubles of frames: names to quote, gaps, rare and missing categories, all kinds of numbers."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.2).astype(int)
    frame = pd.DataFrame(
        {
            'amount "net"': rng.normal(1.7e9, 1e5, n) + 1e5 * y,
            "in come": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n) + y),
            "kind": rng.choice(["card", "O'Neill", "wire", "rare"], n, p=[0.5, 0.3, 0.19, 0.01]),
            "channel": rng.choice(np.array(["web", "shop", np.nan], dtype=object), n),
            "count": rng.integers(0, 4, n),
            "single": (rng.normal(size=n) + y).astype(np.float32),
            "flag": rng.random(n) < 0.5 + 0.3 * y,
        }
    )
    return frame, y


FRAME, FRAME_Y = table()


def columns():
    """The preprocessing of that frame."""
    return ColumnTransformer(
        [
            ("kind", OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=50), ["kind"]),
            ("count", OneHotEncoder(drop="first"), ["count"]),
            (
                "numbers",
                make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()),
                ['amount "net"', "in come"],
            ),
            (
                "channel",
                make_pipeline(SimpleImputer(strategy="constant", fill_value="none"), OneHotEncoder(drop="first")),
                ["channel"],
            ),
        ],
        remainder="passthrough",
    )


def rewrite(path, edit_schema=None, edit_member=None):
    """Change a model file in place: its schema, or its arrays (a function of name and bytes)."""
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    if edit_schema is not None:
        schema = json.loads(members["schema.json"])
        members["schema.json"] = json.dumps(edit_schema(schema) or schema).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content if edit_member is None else edit_member(name, content))


def edit_header(**changes):
    """An edit of the schema that changes fields of the header; None takes a field out."""

    def edit(schema):
        node = schema["content"]["header"]
        header = {**json.loads(json.loads(node["content"])), **changes}
        node["content"] = json.dumps(json.dumps({name: value for name, value in header.items() if value is not None}))

    return edit


def edit_arrays(change):
    """An edit of the members that changes every array: a function of an array that gives one, or None."""

    def edit(name, content):
        if not name.endswith(".npy"):
            return content
        array = np.load(io.BytesIO(content))
        changed = change(array)
        if changed is None:
            return content
        stream = io.BytesIO()
        np.save(stream, changed)
        return stream.getvalue()

    return edit
