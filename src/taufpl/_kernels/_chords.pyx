"""The root of Psi (docs/projection.md) for two vectors of which some entries are known, in one sweep upward in the level.

A vector is given by the ranks of known entries (downward, from 0), the entries with their sign turned (ascending), and
the sums of all turned entries before them. Between two of them the excess over a threshold is taken to be its chord:
exact where their ranks follow one another.
"""

from libc.math cimport INFINITY, fmax, fmin


cdef struct Line:
    const double *rank
    const double *turned
    const double *sums
    Py_ssize_t n
    double size


cdef Line _line(double[:, ::1] known, double size) noexcept:
    cdef Line x
    x.n = known.shape[1]
    x.rank, x.turned, x.sums = &known[0, 0], &known[1, 0], &known[2, 0]
    x.size = size
    return x


cdef double _excess(const Line *x, Py_ssize_t i) noexcept nogil:
    """Over the known entry i."""
    return x.rank[i] * x.turned[i] - x.sums[i]


cdef double _count(const Line *x, Py_ssize_t i) noexcept nogil:
    """Entries above a threshold between the known entries i and i + 1: minus the slope of the chord."""
    cdef double width
    if i < 0:
        return 0.0
    if i + 1 >= x.n:
        return x.size
    width = x.turned[i + 1] - x.turned[i]
    if x.rank[i + 1] - x.rank[i] == 1.0 or width <= 0.0:
        return x.rank[i + 1]
    return fmin(fmax((_excess(x, i + 1) - _excess(x, i)) / width, x.rank[i] + 1.0), x.rank[i + 1])


cdef Py_ssize_t _last_above(const Line *x, double u, Py_ssize_t start) noexcept nogil:
    """The last known entry above u, at `start` or before it; -1 where there is none."""
    while start >= 0 and -x.turned[start] <= u:
        start -= 1
    return start


cdef double _excess_over(const Line *x, double u, Py_ssize_t i) noexcept nogil:
    """Over a threshold below the known entry i and not below i + 1."""
    return 0.0 if i < 0 else _excess(x, i) - _count(x, i) * (x.turned[i] + u)


def solve(
    double[:, ::1] alpha_known,         # IN: ranks, turned entries, sums
    double alpha_size,
    double[:, ::1] beta_known,
    double beta_size,
    double k,
    double weight,
    double balance,                     # minus (origin of beta + weight * origin of alpha)
):
    """Level, u, mu, delta, and the known entries above u, above mu and above delta; None where T is flat there."""
    cdef Line alpha = _line(alpha_known, alpha_size), beta = _line(beta_known, beta_size)
    cdef Py_ssize_t left_at, right_at = 0, near, further
    cdef double level, left, right, u, total, above, below, higher, new_left, new_right, new_u, widening, speed, growth
    while right_at < beta.n - 1 and _count(&beta, right_at) < k:
        right_at += 1
    left_at = right_at
    while left_at < beta.n - 1 and _count(&beta, left_at) <= k:
        left_at += 1
    level = _excess(&beta, right_at) - k * beta.turned[right_at]
    left, right = -beta.turned[left_at], -beta.turned[right_at]
    u = (right - left - level / k + balance) / weight
    near = _last_above(&alpha, u, alpha.n - 1)
    if not (_count(&beta, left_at) > k and _excess_over(&alpha, u, near) > k * (right - left)):
        return None
    while True:
        # Up to the next corner on either side, T is linear there.
        below, above = _count(&beta, left_at), _count(&beta, right_at - 1)
        higher = INFINITY
        if left_at + 1 < beta.n:
            higher = _excess(&beta, left_at + 1) - k * beta.turned[left_at + 1]
        if right_at > 0:
            higher = fmin(higher, _excess(&beta, right_at - 1) - k * beta.turned[right_at - 1])
        higher = fmax(higher, level)
        if higher == INFINITY:
            break
        new_left, new_right = left - (higher - level) / (below - k), right + (higher - level) / (k - above)
        new_u = (new_right - new_left - higher / k + balance) / weight
        further = _last_above(&alpha, new_u, near)
        if not _excess_over(&alpha, new_u, further) > k * (new_right - new_left):
            break
        level, left, right, u, near = higher, new_left, new_right, new_u, further
        if left_at + 1 < beta.n and _excess(&beta, left_at + 1) - k * beta.turned[left_at + 1] <= level:
            left_at += 1
            left = -beta.turned[left_at]
        if right_at > 0 and _excess(&beta, right_at - 1) - k * beta.turned[right_at - 1] <= level:
            right_at -= 1
            right = -beta.turned[right_at]
    widening = 1.0 / (below - k) + 1.0 / (k - above)
    speed = (widening - 1.0 / k) / weight
    growth, total = k * widening / speed, k * (right - left)
    while near > 0 and _excess(&alpha, near) > total - growth * (alpha.turned[near] + u):
        near -= 1
    new_u = (_excess(&alpha, near) - total + growth * (alpha.turned[near] + u)) / (growth + _count(&alpha, near))
    new_u -= alpha.turned[near]
    level, u = level + (new_u - u) / speed, new_u - u
    left, right = left - u / speed / (below - k), right + u / speed / (k - above)
    return level, new_u, left, right, near, left_at, right_at - 1
