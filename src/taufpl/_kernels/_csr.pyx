"""Products with the rows of a CSR matrix, for any number of threads; every sum is in double precision.

Indices within a row are sorted and distinct. The work is cut into blocks; every thread that calls a kernel does
the blocks whose tickets it gets (simd/tickets.h), and learns how many blocks there are in all. No result depends on
the number of threads.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

cdef extern from "simd/tickets.h":
    bint ticket_next(int64_t *tickets, int64_t *block, int64_t n_blocks) noexcept nogil

ctypedef fused real:
    float
    double

ctypedef fused index:
    int
    long long

cdef Py_ssize_t DOT_ROWS = 512          # rows in a block of a product: small enough to share out evenly
cdef Py_ssize_t SQUARE = 32             # a square of this side is turned over within the first-level cache


def dot(
    const index[::1] indptr,            # IN
    const index[::1] indices,           # IN
    const real[::1] data,               # IN
    const Py_ssize_t[::1] rows,         # IN, or None for all
    const double[::1] w,                # IN, one per column
    double[::1] out,                    # OUT, one per row taken
    int64_t[::1] tickets,               # IN and OUT
):
    """out_i = x_i . w over the rows taken."""
    cdef Py_ssize_t n = out.shape[0], n_blocks = (n + DOT_ROWS - 1) // DOT_ROWS
    cdef const Py_ssize_t *taken = &rows[0] if rows is not None and n > 0 else NULL
    cdef int64_t block = -1
    with nogil:
        while ticket_next(&tickets[0], &block, n_blocks):
            dot_block(
                &indptr[0], &indices[0], &data[0], taken, block * DOT_ROWS, min(n, (block + 1) * DOT_ROWS),
                &w[0], &out[0],
            )
    return n_blocks


cdef void dot_block(
    const index *indptr, const index *indices, const real *data, const Py_ssize_t *rows,
    Py_ssize_t first, Py_ssize_t last, const double *w, double *out,
) noexcept nogil:
    cdef Py_ssize_t i, row, p
    cdef double total
    for i in range(first, last):
        row = i if rows == NULL else rows[i]
        total = 0.0
        for p in range(indptr[row], indptr[row + 1]):
            total += data[p] * w[indices[p]]
        out[i] = total


def add(
    const index[::1] indptr,            # IN
    const index[::1] indices,           # IN
    const real[::1] data,               # IN
    const Py_ssize_t[::1] rows,         # IN, or None for all
    const double[::1] v,                # IN, one per row taken
    double[:, ::1] partial,             # OUT, one line for each group of rows
    int64_t[::1] tickets,               # IN and OUT
):
    """partial_g = sum of v_i x_i over group g of the rows taken; a block is a group."""
    cdef Py_ssize_t n = v.shape[0], d = partial.shape[1], n_blocks = partial.shape[0]
    cdef Py_ssize_t step = (n + n_blocks - 1) // n_blocks
    cdef const Py_ssize_t *taken = &rows[0] if rows is not None and n > 0 else NULL
    cdef int64_t block = -1
    with nogil:
        while ticket_next(&tickets[0], &block, n_blocks):
            memset(&partial[block, 0], 0, d * sizeof(double))
            add_block(
                &indptr[0], &indices[0], &data[0], taken, min(n, block * step), min(n, (block + 1) * step),
                &v[0], &partial[block, 0],
            )
    return n_blocks


cdef void add_block(
    const index *indptr, const index *indices, const real *data, const Py_ssize_t *rows,
    Py_ssize_t first, Py_ssize_t last, const double *v, double *out,
) noexcept nogil:
    cdef Py_ssize_t i, row, p
    for i in range(first, last):
        if v[i] == 0.0:     # dual vectors are mostly zero
            continue
        row = i if rows == NULL else rows[i]
        for p in range(indptr[row], indptr[row + 1]):
            out[indices[p]] += v[i] * data[p]


def gram(
    const index[::1] indptr,            # IN
    const index[::1] indices,           # IN
    const real[::1] data,               # IN
    const Py_ssize_t[::1] rows,         # IN
    const double[::1] weights,          # IN, one per row taken
    const Py_ssize_t[::1] bounds,       # IN, columns at which the work is cut, from 0 to d
    double[:, ::1] out,                 # OUT, the lower triangle; zero on entry
    int64_t[::1] tickets,               # IN and OUT
):
    """out = lower triangle of the sum of weight_i x_i x_i' over the rows taken; a block is a range of its lines.

    Whoever does a block walks over all the rows, but writes only that range: there are no copies of out to add
    up, and every entry is summed in the order of the rows, however the work was cut.
    """
    cdef Py_ssize_t n = rows.shape[0], d = out.shape[0], n_blocks = bounds.shape[0] - 1
    cdef int64_t block = -1
    with nogil:
        while ticket_next(&tickets[0], &block, n_blocks):
            gram_range(
                &indptr[0], &indices[0], &data[0], &rows[0], &weights[0], n, bounds[block], bounds[block + 1], d,
                &out[0, 0],
            )
    return n_blocks


cdef void gram_range(
    const index *indptr, const index *indices, const real *data, const Py_ssize_t *rows, const double *weights,
    Py_ssize_t n, Py_ssize_t low, Py_ssize_t high, Py_ssize_t d, double *out,
) noexcept nogil:
    cdef Py_ssize_t i, p, q, start, stop
    cdef double c
    cdef double *line
    for i in range(n):
        start = indptr[rows[i]]
        stop = indptr[rows[i] + 1]
        p = start
        while p < stop and indices[p] < low:
            p += 1
        while p < stop and indices[p] < high:
            c = weights[i] * data[p]
            line = out + indices[p] * d
            for q in range(start, p + 1):
                line[indices[q]] += c * data[q]
            p += 1


def mirror(
    double[:, ::1] out,                 # IN and OUT
):
    """Copies the lower triangle to the upper one."""
    cdef Py_ssize_t d = out.shape[0], n_squares = (d + SQUARE - 1) // SQUARE, top, left, i, j
    with nogil:
        for top in range(n_squares):
            for left in range(top + 1):
                for i in range(top * SQUARE, min(d, (top + 1) * SQUARE)):
                    for j in range(left * SQUARE, min(i, (left + 1) * SQUARE)):
                        out[j, i] = out[i, j]


def gram_work(
    const index[::1] indptr,            # IN
    const index[::1] indices,           # IN
    const Py_ssize_t[::1] rows,         # IN
    double[::1] out,                    # OUT, one per column; zero on entry
):
    """out_j = products that line j of the lower triangle of the Gram matrix takes."""
    cdef Py_ssize_t i, p, start
    with nogil:
        for i in range(rows.shape[0]):
            start = indptr[rows[i]]
            for p in range(start, indptr[rows[i] + 1]):
                out[indices[p]] += p - start + 1


def squares(
    const index[::1] indptr,            # IN
    const index[::1] indices,           # IN
    const real[::1] data,               # IN
    const Py_ssize_t[::1] rows,         # IN
    double[::1] row_sums,               # OUT, one per row taken
    double[::1] column_sums,            # OUT, one per column; zero on entry
):
    """Sums of squares of the rows taken, along the rows and down the columns."""
    cdef Py_ssize_t i, p
    cdef double square, total
    with nogil:
        for i in range(rows.shape[0]):
            total = 0.0
            for p in range(indptr[rows[i]], indptr[rows[i] + 1]):
                square = <double> data[p] * data[p]
                total += square
                column_sums[indices[p]] += square
            row_sums[i] = total
