# Types, constants and memory of _projection.pyx.


from libc.float cimport DBL_EPSILON, DBL_MAX, DBL_MIN
from libc.math cimport INFINITY, NAN, fabs, floor, fma, fmax, fmin, isfinite, isnan, pow, sqrt
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

cdef extern from "simd/scan.h":
    ctypedef struct split:
        double low, high, clip, origin, anchor
        double *kept
        Py_ssize_t n_kept
        double count, excess

    ctypedef struct scan_table:
        int (*filter_one[2])(const void *, Py_ssize_t, split *) noexcept nogil
        int (*filter_two[2])(const void *, Py_ssize_t, split *, split *) noexcept nogil
        double (*write_excess[2])(const void *, void *, Py_ssize_t, double, double) noexcept nogil
        double (*write_capped[2])(
            const void *, void *, Py_ssize_t, double, double, double, double *
        ) noexcept nogil

    const scan_table *scan_loops(int) noexcept nogil

cdef extern from "simd/level.h":
    ctypedef struct tail:
        double origin
        double *y
        Py_ssize_t n
        double count, excess, low, high
        int low_is_proven, high_is_proven
        double at, n_above, over

    ctypedef enum set_kind:
        TOPK_SIMPLEX, TOPK_CONE, CAPPED_SIMPLEX

    ctypedef enum level_status:
        SOLVED, SOLVED_FLAT, ZERO, INFEASIBLE, OUTSIDE, NEEDS_JOIN

    ctypedef struct level_problem:
        const scan_table *scan
        set_kind kind
        double k, weight, total, ratio
        tail alpha, lower, upper
        int joined, rough
        double gap, balance, residue
        tail *outside
        int side
        double solution, n_free

    level_status level_solve(level_problem *p) nogil
    double select_largest(double *y, Py_ssize_t n, Py_ssize_t rank) nogil

# A sample of about n^(2/3) entries balances its own cost against the entries that it leaves undecided.
cdef double SAMPLE_FACTOR = 0.8
cdef Py_ssize_t SAMPLE_LEAST = 1024
# Half width of the first intervals in standard errors: wide enough to fail about once in a thousand calls.
cdef double STANDARD_ERRORS = 3.5
# Half width, relative to the numbers that went in, where only rounding errors are left.
cdef double ROUNDING_WIDTH = 2.0**-44
# The sums of alpha and beta may differ by this much, relative to the total, before beta is written again.
cdef double SUM_TOLERANCE = 8.0 * DBL_EPSILON
# And by no more than this, whatever happens: rather no answer than a wrong one.
cdef double FAR_OFF = 1e-9
# A plan COARSE times as wide as its answer is made again around that answer, at most REFINE times.
cdef double COARSE = 64.0
cdef int REFINE = 8
# A plan may leave this share of a vector undecided.
cdef double MOST_UNDECIDED = 0.125
# A plan that failed is made again from the sample RESAMPLE times; then one interval after the other is opened.
cdef int RESAMPLE = 3
cdef int OPEN_AFTER = 6
cdef int LINE = 8  # entries sampled together: a cache line of float64

# What the caller may see of an answer: also the exit codes of the kernels.
FOUND, ZERO_ANSWER, NOT_FEASIBLE, BAD_VALUE, OVERFLOW = range(5)
cdef enum outcome:
    c_FOUND, c_ZERO_ANSWER, c_NOT_FEASIBLE, c_BAD_VALUE, c_OVERFLOW, c_NO_MEMORY


cdef struct vector:
    const void *data
    Py_ssize_t n
    int is_float32


cdef struct interval:
    double origin   # the threshold is expected here
    double below    # and at most this far below
    double above    # or above


cdef struct plan:
    interval alpha, lower, upper
    int joined      # lower and upper share one interval, for the flat case


cdef struct anchor:
    double at       # a threshold; infinite where nothing is known
    double over     # the excess of the whole vector over it, known exactly


cdef struct anchors:
    anchor alpha, lower, upper


cdef struct task:
    set_kind kind
    vector alpha, beta
    double k, weight, total, cap
    plan plan
    anchors known   # from plans that failed
    int n_passes    # filter passes that it took


cdef struct buffers:
    double *alpha
    double *lower
    double *upper


cdef double *allocate(Py_ssize_t n) noexcept nogil:
    return <double *> malloc((n + LINE) * sizeof(double))


cdef bint allocate_buffers(buffers *b, Py_ssize_t m, Py_ssize_t n) noexcept nogil:
    b.alpha = allocate(m)
    b.lower = allocate(n)
    b.upper = allocate(n)
    return b.alpha != NULL and b.lower != NULL and b.upper != NULL


cdef void free_buffers(buffers *b) noexcept nogil:
    free(b.alpha)
    free(b.lower)
    free(b.upper)
