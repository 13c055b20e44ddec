"""One set of rows in every form that the estimators take, and a judge in NumPy."""

import warnings
from contextlib import contextmanager

import array_api_strict as strict
import numpy as np
import pytest
import scipy.sparse as sp

from taufpl.operators import as_operator
from taufpl.problem import RankingProblem, top_count

try:
    import torch
except ImportError:
    torch = None

N_FEATURES = 4
NAMES = [f"feature_{i}" for i in range(N_FEATURES)]


def rows(m=60, n=540, seed=0):
    """Two clouds in single precision, a third of the values 0, so that every form holds the same numbers."""
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], [n, m])
    X = np.where(rng.random((m + n, N_FEATURES)) < 0.3, 0.0, rng.normal(size=(m + n, N_FEATURES)))
    X = (X + 1.3 * y[:, np.newaxis]).astype(np.float32).astype(np.float64)
    order = rng.permutation(m + n)
    return X[order], y[order]


def tensor(X):
    """An array of another library: PyTorch's where that is installed."""
    return strict.asarray(X) if torch is None else torch.asarray(X)


def memmap(X, y, folder):
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r"), y


def dask_arrays(X, y, folder):
    da = pytest.importorskip("dask.array")
    return da.from_array(X, chunks=(170, 3)), da.from_array(y, chunks=250)


def dask_sparse(X, y, folder):
    da = pytest.importorskip("dask.array")
    return da.from_array(X, chunks=(170, N_FEATURES)).map_blocks(sp.csr_matrix), y


def dask_frame(X, y, folder):
    dd = pytest.importorskip("dask.dataframe")
    import pandas as pd

    frame = dd.from_pandas(pd.DataFrame(X, columns=NAMES).assign(label=y), npartitions=3)
    return frame[NAMES], frame["label"]


def torch_rows(X, y, dtype="float64", device="cpu"):
    if torch is None:
        pytest.skip("PyTorch is not installed")
    if device != "cpu" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return torch.asarray(X, dtype=getattr(torch, dtype), device=device), torch.asarray(y, device=device)


def torch_csr(X, y, folder):
    rows, labels = torch_rows(X, y)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR")
        return rows.to_sparse_csr(), labels


def strict_rows(X, y, folder):
    """On a device that refuses to be mixed with another, as a GPU does."""
    device = strict.Device("device1")
    return strict.asarray(X, device=device), strict.asarray(y, device=device)


LOCAL = {
    "numpy": lambda X, y, folder: (X, y),
    "fortran": lambda X, y, folder: (np.asfortranarray(X), y),
    "csr": lambda X, y, folder: (sp.csr_array(X), y),
    "memmap": memmap,
}
ELSEWHERE = {
    "dask threads": dask_arrays,
    "dask cluster": dask_arrays,
    "dask sparse": dask_sparse,
    "dask dataframe": dask_frame,
    "torch float64": lambda X, y, folder: torch_rows(X, y),
    "torch float32": lambda X, y, folder: torch_rows(X, y, "float32"),
    "torch csr": torch_csr,
    "torch cuda": lambda X, y, folder: torch_rows(X, y, "float32", "cuda"),
    "array_api_strict": strict_rows,
}
BACKENDS = {**LOCAL, **ELSEWHERE}


@contextmanager
def nothing_computed():
    """Within it, whoever computes a dask collection fails."""
    dask = pytest.importorskip("dask")

    def refuse(*args, **kwargs):
        raise AssertionError("a lazy result was computed")

    with dask.config.set(scheduler=refuse):
        yield


def gathered(values):
    """A result as a NumPy array, wherever it is."""
    if hasattr(values, "compute"):
        values = values.compute()
    if hasattr(values, "cpu"):
        values = values.cpu()
    return np.asarray(values if isinstance(values, np.ndarray) else np.from_dlpack(values))


def problem(X, y, tau, reg, tau_scale=1.0):
    """The same problem in NumPy, to judge by."""
    n = int(np.sum(y == 0))
    return RankingProblem(
        as_operator(X), np.flatnonzero(y == 1), np.flatnonzero(y == 0), top_count(tau_scale * tau, n), reg
    )


def primal(judge, coef):
    """P, by the judge."""
    positive, negative = judge.scores(coef)
    return judge.primal(positive, judge.top_mean(negative), float(coef @ coef))


@contextmanager
def nothing_warned():
    """Within it, warnings are errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
