"""Labels, checks, ranks and products of an array on a device, without copies of vectors to the host."""

import numpy as np
import pytest

from block_cases import cuda_tensor, strict_array, torch_tensor
from taufpl.operators import LocalBlocks
from taufpl.operators.remote import (
    ArrayBlock,
    Entries,
    _arrays,
    as_block,
    as_blocks,
    check_rows,
    divide,
    label_counts,
    order_statistic,
)

torch = pytest.importorskip("torch")

CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
DEVICES = ["cpu", pytest.param("cuda", marks=CUDA)]


def blocks_of(y, device="cpu", X=None):
    X = torch.ones((len(y), 2)) if X is None else X
    return as_blocks(X.to(device), y.to(device))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float32", "float64", "bfloat16"])
def test_labels_are_counted_and_divided_where_they_are(dtype, device, monkeypatch):
    y = torch.tensor([1, 0, 0, 1, 0]).to(getattr(torch, dtype))
    if dtype == "bfloat16":
        with pytest.raises(TypeError):  # NumPy has no such type
            label_counts(blocks_of(y, device))
        return
    blocks = blocks_of(y, device)
    monkeypatch.setattr(np, "unique", None)  # which sorts on the host
    counts = label_counts(blocks)
    assert counts == {0: 3, 1: 2}
    assert {type(label) for label in counts} == {type(y[0].item())}
    divide(blocks, list(counts)[1])
    ((rows, mask),) = blocks.gather(lambda block, state: (state["positive"].tolist(), state["is_negative"].tolist()))
    assert rows == [0, 3]
    assert mask == [False, True, True, False, True]


def test_other_labels_are_counted_too():
    assert label_counts(blocks_of(torch.tensor([5, 5, 5]))) == {5: 3}
    assert label_counts(blocks_of(torch.tensor([2, 0, 1, 2]))) == {0: 1, 1: 1, 2: 2}
    large = 2**60
    assert label_counts(blocks_of(torch.tensor([large, large + 1]))) == {large: 1, large + 1: 1}
    with pytest.raises(ValueError, match="missing labels, got 1, the first in row 2"):
        label_counts(blocks_of(torch.tensor([0.0, 1.0, float("nan")])))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_that_cannot_be_used_are_named(dtype, device):
    X = torch.ones((6, 3), dtype=getattr(torch, dtype))
    y = torch.tensor([0, 1, 0, 1, 0, 1])
    largest = torch.finfo(X.dtype).max if dtype == "float32" else 1e140
    X[0] = torch.tensor([largest, -largest, largest], dtype=X.dtype)
    check_rows(blocks_of(y, device, X))
    for bad in ([float("inf"), float("-inf"), 1.0], [1.0, float("nan"), 0.0]):
        X[4] = torch.tensor(bad, dtype=X.dtype)
        with pytest.raises(ValueError, match=r"1 of 6 rows .*the first in row 4"):
            check_rows(blocks_of(y, device, X))
    if dtype == "float64":
        X[4] = torch.tensor([1e160, -1e160, 0.0], dtype=X.dtype)
        with pytest.raises(ValueError, match=r"squares are finite too: .*the first in row 4"):
            check_rows(blocks_of(y, device, X))


@pytest.mark.parametrize("kind", ["random", "tied", "sorted", "periodic"])
@pytest.mark.parametrize(
    ("n", "convert"),
    [
        (1000, torch_tensor),
        (1000, cuda_tensor),
        (300_000, strict_array),
        pytest.param(300_000, torch_tensor, marks=pytest.mark.slow),
        (300_000, cuda_tensor),
    ],
)
def test_ranks_by_sorting_and_by_a_sample(n, convert, kind):
    """Many entries are sampled first. A regular sample of periodic ones misleads: then all are sorted."""
    values = np.random.default_rng(0).random(n)
    if kind == "tied":
        values = np.floor(4 * values)
    if kind == "sorted":
        values.sort()
    if kind == "periodic":
        values[::20] += 5.0
    blocks = LocalBlocks([convert(np.ones((n, 1)))], [{"s": convert(values)}])
    ranks = (1, 2, n // 25, n // 2, n - n // 25, n - 1, n)
    expected = np.sort(values)[np.array(ranks) - 1]
    np.testing.assert_array_equal([order_statistic(blocks, Entries("s"), rank) for rank in ranks], expected)
    with pytest.raises(ValueError, match=f"between 1 and the number of entries, {n}, got {n + 1}"):
        order_statistic(blocks, Entries("s"), n + 1)


@pytest.mark.parametrize("error", [ImportError("no Triton"), RuntimeError("Failed to find C compiler")])
def test_without_triton_the_library_multiplies(error, monkeypatch):
    def fail(name):
        raise error

    monkeypatch.setattr(_arrays, "import_module", fail)
    _arrays._row_kernels.cache_clear()
    try:
        assert _arrays._row_kernels() is None
    finally:
        _arrays._row_kernels.cache_clear()


@CUDA
@pytest.mark.parametrize("layout", ["rows", "columns", "slice", "double"])
@pytest.mark.parametrize("n_features", [1, 4, 7, 100, 300])
def test_products_on_a_device_are_those_of_double_precision(layout, n_features, monkeypatch):
    monkeypatch.setattr(_arrays, "_LEAST_KERNEL_VALUES", 0)
    generator = torch.Generator().manual_seed(0)
    X = torch.randn((777, n_features + 1), generator=generator)
    X = {
        "rows": X[:, 1:].contiguous(),
        "columns": X[:, 1:].T.contiguous().T,
        "slice": X[:, 1:],
        "double": X.double()[:, 1:],
    }[layout]
    w, values = (torch.randn(size, generator=generator, dtype=torch.float64) for size in (n_features, 777))
    block = as_block(X.cuda())
    assert isinstance(block, ArrayBlock)
    assert block.exact
    exact = X.double()
    for rows in (None, torch.tensor([5, 3, 776, 0])):
        there, part = None if rows is None else rows.cuda(), exact if rows is None else exact[rows]
        own = values[: len(part)]
        torch.testing.assert_close(block.dot(w.numpy(), there).cpu(), part @ w, rtol=1e-13, atol=1e-12)
        torch.testing.assert_close(block.norms(there).cpu(), (part**2).sum(1), rtol=1e-13, atol=1e-12)
        (found,) = block.settle(block.add(own.cuda(), there))
        np.testing.assert_allclose(found, (own @ part).numpy(), rtol=1e-12, atol=1e-11)
    assert block.dot(w.numpy(), torch.zeros(0, dtype=torch.int64, device="cuda")).shape == (0,)
