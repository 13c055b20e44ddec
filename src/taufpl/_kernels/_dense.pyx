"""Products with dense rows, for any number of threads; every sum is in double precision.

Rows are contiguous, any distance apart. The work is cut into blocks; every thread that calls a kernel does the
blocks whose tickets it gets (simd/tickets.h), and learns how many blocks there are in all. The blocks depend on the data alone,
so that no result depends on the number of threads.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

include "simd.pxi"

cdef extern from "simd/tickets.h":
    bint ticket_next(int64_t *tickets, int64_t *block, int64_t n_blocks) noexcept nogil

cdef extern from "simd/dense.h":
    ctypedef void dense_product(
        const void *x, Py_ssize_t stride, const Py_ssize_t *rows, Py_ssize_t first, Py_ssize_t last, Py_ssize_t d,
        const double *given, double *out
    ) noexcept nogil
    ctypedef void dense_square(
        const void *x, Py_ssize_t stride, const Py_ssize_t *rows, Py_ssize_t n, Py_ssize_t d,
        const double *weights, const double *shift, Py_ssize_t low, Py_ssize_t high, double *scratch, double *out
    ) noexcept nogil
    ctypedef struct dense_table:
        dense_product *dot[2]
        dense_product *add[2]
        dense_square *gram[2]
    const dense_table *dense_loops(int) noexcept nogil
    enum: GRAM_ROWS

SCRATCH_ROWS = GRAM_ROWS

ctypedef fused real:
    float
    double

cdef Py_ssize_t DOT_VALUES = 1 << 14    # values in a block of rows: small enough to share out evenly
cdef Py_ssize_t TILE = 2048             # columns in a tile: its sums stay in the first-level cache


def dot(
    const real[:, :] x,                 # IN, columns contiguous
    const Py_ssize_t[::1] rows,         # IN, or None for all
    const double[::1] w,                # IN, one per column
    double[::1] out,                    # OUT, one per row taken
    int64_t[::1] tickets,               # IN and OUT
):
    """out_i = x_i . w over the rows taken."""
    cdef Py_ssize_t n = out.shape[0], d = x.shape[1], stride = x.strides[0] // <Py_ssize_t> sizeof(real)
    cdef Py_ssize_t step = 4 * max(1, DOT_VALUES // (4 * d))
    cdef Py_ssize_t first, last, n_blocks = (n + step - 1) // step
    cdef const Py_ssize_t *taken = &rows[0] if rows is not None and n > 0 else NULL
    cdef int64_t block = -1
    with nogil:
        while ticket_next(&tickets[0], &block, n_blocks):
            first = block * step
            last = min(n, first + step)
            dense_loops(simd_set).dot[real is float](&x[0, 0], stride, taken, first, last, d, &w[0], &out[0])
    return n_blocks


def add(
    const real[:, :] x,                 # IN, columns contiguous
    const Py_ssize_t[::1] rows,         # IN, or None for all
    const double[::1] v,                # IN, one per row taken
    double[:, ::1] partial,             # OUT, one line for each group of rows
    int64_t[::1] tickets,               # IN and OUT
):
    """partial_g = sum of v_i x_i over group g of the rows taken; a block is a tile of columns of a group."""
    cdef Py_ssize_t n = v.shape[0], d = x.shape[1], stride = x.strides[0] // <Py_ssize_t> sizeof(real)
    cdef Py_ssize_t n_tiles = (d + TILE - 1) // TILE, n_blocks = partial.shape[0] * n_tiles
    cdef Py_ssize_t step = (n + partial.shape[0] - 1) // partial.shape[0]
    cdef Py_ssize_t group, first, last, start, width
    cdef const Py_ssize_t *taken = &rows[0] if rows is not None and n > 0 else NULL
    cdef int64_t block = -1
    with nogil:
        while ticket_next(&tickets[0], &block, n_blocks):
            group = block // n_tiles
            start = (block % n_tiles) * TILE
            width = min(TILE, d - start)
            first = min(n, group * step)
            last = min(n, first + step)
            memset(&partial[group, start], 0, width * sizeof(double))
            dense_loops(simd_set).add[real is float](&x[0, start], stride, taken, first, last, width, &v[0], &partial[group, start])
    return n_blocks


def gram(
    const real[:, :] x,                 # IN, columns contiguous
    const Py_ssize_t[::1] rows,         # IN, or None for all
    const double[::1] weights,          # IN, one per row taken
    const double[::1] shift,            # IN, one per column: what is taken off each row
    const Py_ssize_t[::1] bounds,       # IN, lines at which the work is cut, from 0 to d
    double[:, :, ::1] scratch,          # OUT, (blocks, SCRATCH_ROWS, d)
    double[:, ::1] out,                 # IN and OUT, the lower triangle; above the diagonal, anything
    int64_t[::1] tickets,               # IN and OUT
):
    """Adds the sum of weight_i (x_i - shift)(x_i - shift)' over the rows taken; a block is a range of lines of out."""
    cdef Py_ssize_t n = weights.shape[0], d = x.shape[1], stride = x.strides[0] // <Py_ssize_t> sizeof(real)
    cdef Py_ssize_t n_blocks = bounds.shape[0] - 1
    cdef const Py_ssize_t *taken = &rows[0] if rows is not None and n > 0 else NULL
    cdef int64_t block = -1
    with nogil:
        while ticket_next(&tickets[0], &block, n_blocks):
            dense_loops(simd_set).gram[real is float](
                &x[0, 0], stride, taken, n, d, &weights[0], &shift[0], bounds[block], bounds[block + 1],
                &scratch[block, 0, 0], &out[0, 0],
            )
    return n_blocks
