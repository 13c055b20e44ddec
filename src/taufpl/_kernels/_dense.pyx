"""Products with dense rows, for any number of threads; every sum is in double precision.

Rows are contiguous, any distance apart. The work is cut into blocks; whoever calls a kernel does the blocks whose
tickets it gets (simd/tickets.h), and learns how many blocks there are in all. The blocks depend on the data alone,
so that no result depends on the number of threads.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

cdef extern from "simd/tickets.h":
    int64_t ticket_take(int64_t *tickets) noexcept nogil
    void ticket_done(int64_t *tickets) noexcept nogil

cdef extern from "simd/dense.h":
    void dense_dot_f32(
        const float *x, Py_ssize_t stride, const Py_ssize_t *rows, Py_ssize_t first, Py_ssize_t last,
        Py_ssize_t d, const double *w, double *out
    ) noexcept nogil
    void dense_dot_f64(
        const double *x, Py_ssize_t stride, const Py_ssize_t *rows, Py_ssize_t first, Py_ssize_t last,
        Py_ssize_t d, const double *w, double *out
    ) noexcept nogil
    void dense_add_f32(
        const float *x, Py_ssize_t stride, const Py_ssize_t *rows, Py_ssize_t first, Py_ssize_t last,
        Py_ssize_t d, const double *v, double *out
    ) noexcept nogil
    void dense_add_f64(
        const double *x, Py_ssize_t stride, const Py_ssize_t *rows, Py_ssize_t first, Py_ssize_t last,
        Py_ssize_t d, const double *v, double *out
    ) noexcept nogil
    void dense_gram_f32(
        const float *x, Py_ssize_t stride, const Py_ssize_t *rows, Py_ssize_t n, Py_ssize_t d,
        const double *weights, const double *shift, Py_ssize_t low, Py_ssize_t high, double *scratch, double *out
    ) noexcept nogil
    void dense_gram_f64(
        const double *x, Py_ssize_t stride, const Py_ssize_t *rows, Py_ssize_t n, Py_ssize_t d,
        const double *weights, const double *shift, Py_ssize_t low, Py_ssize_t high, double *scratch, double *out
    ) noexcept nogil
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
    cdef Py_ssize_t first, last, block, n_blocks = (n + step - 1) // step
    cdef const Py_ssize_t *taken = NULL
    if rows is not None and n > 0:
        taken = &rows[0]
    with nogil:
        while True:
            block = ticket_take(&tickets[0])
            if block >= n_blocks:
                break
            first = block * step
            last = min(n, first + step)
            if real is float:
                dense_dot_f32(&x[0, 0], stride, taken, first, last, d, &w[0], &out[0])
            else:
                dense_dot_f64(&x[0, 0], stride, taken, first, last, d, &w[0], &out[0])
            ticket_done(&tickets[0])
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
    cdef Py_ssize_t block, group, first, last, start, width
    cdef const Py_ssize_t *taken = NULL
    if rows is not None and n > 0:
        taken = &rows[0]
    with nogil:
        while True:
            block = ticket_take(&tickets[0])
            if block >= n_blocks:
                break
            group = block // n_tiles
            start = (block % n_tiles) * TILE
            width = min(TILE, d - start)
            first = min(n, group * step)
            last = min(n, first + step)
            memset(&partial[group, start], 0, width * sizeof(double))
            if real is float:
                dense_add_f32(&x[0, start], stride, taken, first, last, width, &v[0], &partial[group, start])
            else:
                dense_add_f64(&x[0, start], stride, taken, first, last, width, &v[0], &partial[group, start])
            ticket_done(&tickets[0])
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
    cdef Py_ssize_t block, low, high, n_blocks = bounds.shape[0] - 1
    cdef const Py_ssize_t *taken = NULL
    if rows is not None and n > 0:
        taken = &rows[0]
    with nogil:
        while True:
            block = ticket_take(&tickets[0])
            if block >= n_blocks:
                break
            low = bounds[block]
            high = bounds[block + 1]
            if real is float:
                dense_gram_f32(
                    &x[0, 0], stride, taken, n, d, &weights[0], &shift[0], low, high, &scratch[block, 0, 0], &out[0, 0]
                )
            else:
                dense_gram_f64(
                    &x[0, 0], stride, taken, n, d, &weights[0], &shift[0], low, high, &scratch[block, 0, 0], &out[0, 0]
                )
            ticket_done(&tickets[0])
    return n_blocks
