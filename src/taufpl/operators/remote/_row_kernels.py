"""Products with rows on a CUDA device that read each value once, where it is, and add up in double precision.

In the library's own operations rows are taken out, converted and multiplied: what is written and read in between is
several times the rows. Triton comes with PyTorch where there is CUDA.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

# Columns and rows that a program holds at a time, and rows that it adds up in all.
_COLUMNS, _PRODUCT_ROWS, _PRODUCT_WARPS, _SUM_ROWS, _LEAST_SUM = 128, 16, 4, 16, 64
# Programs of a sum: each leaves a vector that is added up in the end.
_MOST_SUMS = 2048


@triton.jit(do_not_specialize=["n", "d", "stride"])
def _products(x, w, rows, out, n, d, stride, step, U: tl.constexpr, ROWS: tl.constexpr, SQUARES: tl.constexpr, N: tl.constexpr, D: tl.constexpr):  # type: ignore[no-untyped-def] # fmt: skip # noqa: E501
    places = tl.program_id(0).to(tl.int64) * N + tl.arange(0, N)
    inside = places < n
    at = (tl.load(rows + places, inside, 0) if ROWS else places) * (stride * U)
    total = tl.zeros((N,), tl.float64)
    for first in range(0, d * U, D):
        columns = first + tl.arange(0, D)
        mask = inside[:, None] & (columns < d * U)[None, :]
        part = tl.load(x + at[:, None] + columns[None, :] * step, mask, 0).to(tl.float64)
        other = part if SQUARES else tl.load(w + columns, columns < d * U, 0)[None, :]
        total += tl.sum(part * other, 1)
    tl.store(out + places, total, inside)


@triton.jit(do_not_specialize=["n", "d", "stride"])
def _sums(x, values, rows, out, n, d, stride, step, many, U: tl.constexpr, ROWS: tl.constexpr, N: tl.constexpr, D: tl.constexpr):  # type: ignore[no-untyped-def] # fmt: skip # noqa: E501
    columns = tl.program_id(1) * D + tl.arange(0, D)
    start = tl.program_id(0).to(tl.int64) * many
    total = tl.zeros((N, D), tl.float64)
    for first in range(0, many, N):
        places = start + first + tl.arange(0, N)
        inside = places < n
        at = (tl.load(rows + places, inside, 0) if ROWS else places) * (stride * U)
        weights = tl.load(values + places, inside, 0)
        mask = inside[:, None] & (columns < d * U)[None, :]
        part = tl.load(x + at[:, None] + columns[None, :] * step, mask, 0).to(tl.float64)
        total += weights[:, None] * part
    tl.store(out + tl.program_id(0) * (d * U) + columns, tl.sum(total, 0), columns < d * U)


def row_products(x: Any, w: Any, rows: Any | None) -> Any:
    """x_i . w of some rows or of all (None); |x_i|^2 where w is None."""
    n = x.shape[0] if rows is None else rows.shape[0]
    out = torch.empty(n, dtype=torch.float64, device=x.device)
    if n:
        with torch.cuda.device(x.device):
            _products[(triton.cdiv(n, _PRODUCT_ROWS),)](
                x, x if w is None else w, x if rows is None else rows, out, n, *_layout(x),
                ROWS=rows is not None, SQUARES=w is None, N=_PRODUCT_ROWS, D=_COLUMNS, num_warps=_PRODUCT_WARPS,
            )  # fmt: skip
    return out


def row_sums(x: Any, values: Any, rows: Any | None) -> Any:
    """Sum of values_i x_i over some rows, or over all (None)."""
    n, d = values.shape[0], x.shape[1]
    many = max(_LEAST_SUM, _SUM_ROWS * triton.cdiv(n, _SUM_ROWS * _MOST_SUMS))
    grid = triton.cdiv(n, many), triton.cdiv(d, _COLUMNS)
    out = torch.empty((grid[0], d), dtype=torch.float64, device=x.device)
    width, stride, step, unit = _layout(x)
    with torch.cuda.device(x.device):
        _sums[grid](
            x, values, x if rows is None else rows, out, n, width, stride, step, many, unit,
            ROWS=rows is not None, N=_SUM_ROWS, D=_COLUMNS,
        )  # fmt: skip
    return out.sum(0)


def try_out() -> None:
    """Raise what Triton raises where it cannot work."""
    x = torch.ones((16, 4), device="cuda")
    row_products(x, torch.ones(4, dtype=torch.float64, device="cuda"), None).cpu()


def _layout(x: Any) -> tuple[int, int, int, int]:
    """Columns and the distance between rows in units, that between columns, and the unit: values that load at once."""
    stride, step = x.stride()
    unit = 4 if x.shape[1] % 4 == 0 and stride % 4 == 0 else 1
    return x.shape[1] // unit, stride // unit, step, unit
