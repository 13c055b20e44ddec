"""The root of Psi (docs/projection.md) for two vectors of which some entries are known, in one sweep upward in the level.

A vector is given by the ranks of known entries (downward, from 0), the entries with their sign turned (ascending), and
the sums of all turned entries before them. Between two of them the excess over a threshold is taken to be its chord:
exact where their ranks follow one another.
"""

from libc.math cimport INFINITY, fabs, fmax, fmin

# Chords whose slope is that close to k, in parts of k, are taken to be flat.
cdef double FLAT = 1e-9
# By how much thresholds may lie outside the chords that they were computed on.
cdef double ROUNDING = 1e-12


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


cdef double _count_by(const Line *x, Py_ssize_t i, double k) noexcept nogil:
    """The same, k where it is k but for rounding."""
    cdef double count = _count(x, i)
    return k if fabs(count - k) <= FLAT * k else count


cdef double _height(const Line *x, Py_ssize_t i, double k) noexcept nogil:
    """T at the known entry i; infinite where there is none."""
    cdef double height = INFINITY
    if 0 <= i < x.n:
        height = _excess(x, i) - k * x.turned[i]
    return height if height == height else INFINITY


cdef Py_ssize_t _last_above(const Line *x, double u, Py_ssize_t near) noexcept nogil:
    """The last known entry above u, looked for from another one on; -1 where there is none."""
    while near + 1 < x.n and -x.turned[near + 1] > u:
        near += 1
    while near >= 0 and not -x.turned[near] > u:
        near -= 1
    return near


cdef double _excess_over(const Line *x, double u, Py_ssize_t i) noexcept nogil:
    """Over a threshold below the known entry i and not below i + 1."""
    return 0.0 if i < 0 else _excess(x, i) - _count(x, i) * (x.turned[i] + u)


cdef bint _is_on_chord(const Line *x, Py_ssize_t i, double threshold, double slack) noexcept nogil:
    """Whether a threshold lies between the known entries i and i + 1."""
    if i >= 0 and threshold > -x.turned[i] + slack:
        return False
    return i + 1 >= x.n or threshold >= -x.turned[i + 1] - slack


cdef struct Spot:
    # A level, both ends of its set, the known entries there, the threshold of alpha and the last entry above that.
    double level
    double left
    double right
    Py_ssize_t left_at
    Py_ssize_t right_at
    double u
    Py_ssize_t near


cdef struct Weights:
    double k
    double weight
    double balance


cdef bint _pulls(Spot *at, const Line *alpha, const Weights *p) noexcept nogil:
    """Whether Psi is positive at a spot, whose u is found on the way."""
    at.u = (at.right - at.left - at.level / p.k + p.balance) / p.weight
    at.near = _last_above(alpha, at.u, at.near)
    return _excess_over(alpha, at.u, at.near) > p.k * (at.right - at.left)


cdef Spot _lowest(const Line *alpha, const Line *beta, double k) noexcept nogil:
    """Where T is least."""
    cdef Spot at
    at.right_at = 0
    while at.right_at < beta.n - 1 and _count_by(beta, at.right_at, k) < k:
        at.right_at += 1
    at.left_at = at.right_at
    while at.left_at < beta.n - 1 and _count_by(beta, at.left_at, k) <= k:
        at.left_at += 1
    at.level = _height(beta, at.right_at, k)
    at.left, at.right = -beta.turned[at.left_at], -beta.turned[at.right_at]
    at.near = alpha.n - 1
    return at


cdef Spot _next(const Spot *at, const Line *beta, double k) noexcept nogil:
    """At the next corner of T, on one side or the other; the level is infinite where there is none."""
    cdef Spot following = at[0]
    cdef double on_left = _height(beta, at.left_at + 1, k), on_right = _height(beta, at.right_at - 1, k)
    following.level = fmax(fmin(on_left, on_right), at.level)
    if on_left <= on_right and on_left < INFINITY:
        following.left_at += 1
        following.left = -beta.turned[following.left_at]
        following.right += (following.level - at.level) / (k - _count_by(beta, at.right_at - 1, k))
    elif on_right < INFINITY:
        following.right_at -= 1
        following.right = -beta.turned[following.right_at]
        following.left -= (following.level - at.level) / (_count_by(beta, at.left_at, k) - k)
    else:
        following.level = INFINITY
    return following


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
    cdef Weights p = Weights(k, weight, balance)
    cdef Spot at = _lowest(&alpha, &beta, k), following
    cdef double below, above, speed, growth, total, step, u, slack
    if not _pulls(&at, &alpha, &p):
        return None
    while True:
        following = _next(&at, &beta, k)
        if following.level == INFINITY or not _pulls(&following, &alpha, &p):
            break
        at = following
    below, above = _count(&beta, at.left_at), _count(&beta, at.right_at - 1)
    if not above < k < below:
        return None
    # From here on both ends move with the level, u and the total with them: a line that S has to meet.
    speed = (1.0 / (below - k) + above / (k * (k - above))) / weight
    growth = k * (1.0 / (below - k) + 1.0 / (k - above)) / speed
    total = k * (at.right - at.left)
    while at.near > 0 and _excess(&alpha, at.near) > total - growth * (alpha.turned[at.near] + at.u):
        at.near -= 1
    step = (_excess(&alpha, at.near) - total + growth * (alpha.turned[at.near] + at.u)) / (
        growth + _count(&alpha, at.near)
    )
    u = step - alpha.turned[at.near]
    step = (u - at.u) / speed
    at.level += step
    at.left -= step / (below - k)
    at.right += step / (k - above)
    slack = ROUNDING * (fabs(at.level) * (1.0 / (below - k) + 1.0 / (k - above)) + fabs(at.left) + fabs(at.right))
    if not (
        _is_on_chord(&beta, at.left_at, at.left, slack)
        and _is_on_chord(&beta, at.right_at - 1, at.right, slack)
        and _is_on_chord(&alpha, at.near, u, slack / weight + ROUNDING * fabs(u))
    ):
        return None
    return at.level, u, at.left, at.right, at.near, at.left_at, at.right_at - 1
