"""Peer methods for the projection on the top-k simplex, compiled so that the comparison is fair.

Three root searches share one idea. Let p and q be convex, decreasing and piecewise linear, and let

    F(x) = p(x) - q(s x + c) - total

decrease. On a bracket of its root, p lies above its tangents and under its chord, and so does q. So the root
lies between that of (tangent of p) - (chord of q) and that of (chord of p) - (tangent of q): see `narrow`.
Improved bisection (Liu and Ye, 2009) tries points of that interval, plain bisection the bracket's middle.

    search           p                       q                                        s     c      total
    lambda, k = 1    sum [alpha0 - x]_+      G(y) = sum [beta0 - y]_+                 -1    0      0
    lambda           sum [alpha0 - x]_+      C as a function of k mu + G(delta)       -k    0      0
    mu, given C      G(x)                    G(y)                                     1     C/k    C

with delta = mu + C/k. The mathematics is in docs/projection.md.
"""

from libc.float cimport DBL_EPSILON
from libc.math cimport INFINITY, NAN, fabs, fmax, fmin

include "simd.pxi"

cdef extern from "simd/peers.h":
    """
    int peers_vector_loops = 1;
    """
    int peers_vector_loops
    ctypedef struct peers_table:
        void (*excess)(const double *x, Py_ssize_t n, double t, double *excess, double *count) noexcept nogil
        void (*excess_two)(
            const double *x, Py_ssize_t n, const double *t, double *excess, double *count
        ) noexcept nogil
        Py_ssize_t (*keep)(const double *x, Py_ssize_t n, double low, double high, double *kept) noexcept nogil
        int (*any_pair)(
            const double *x, const double *sums, double k, double tol, int u, int first, int last
        ) noexcept nogil
    const peers_table *peers_loops(int) noexcept nogil


def use_vector_loops(bint on):
    """Scan eight entries at a time (the default) or one, as the authors of the methods did."""
    global peers_vector_loops
    peers_vector_loops = on


cdef enum:
    MAX_STEPS = 300      # a guard: improved bisection takes about ten steps, plain bisection about forty
    WORTH_PRUNING = 64   # entries
    BLOCK = 512          # pairs that ptkc tries at once

# A point of a convex decreasing function, with its tangent. The slope is minus the derivative.
cdef struct Line:
    double x
    double value
    double slope

# t -> sum [v - t]_+ for t between low.x and high.x.
cdef struct Excess:
    const double *entries
    Py_ssize_t size
    double *spare        # room for the entries that pruning leaves; NULL: no pruning
    Line base            # the share of the entries above high.x that pruning took out
    Line low
    Line high

# C as a function of y = k mu + G(delta), at one point, and the thresholds there.
cdef struct Demand:
    Line at
    Line mu
    Line delta


cdef inline double height(Line line, double x) noexcept nogil:
    return line.value - line.slope * (x - line.x)


cdef inline Line moved(Line line, double x) noexcept nogil:
    """The same straight line, given by its point at x."""
    return Line(x, height(line, x), line.slope)


cdef inline Line chord(Line a, Line b) noexcept nogil:
    return a if a.x == b.x else Line(a.x, a.value, (a.value - b.value) / (b.x - a.x))


cdef inline double crossing(Line p, Line q, double s, double c, double total) noexcept nogil:
    """Where p(x) - q(s x + c) = total, for straight lines; NaN where the difference does not fall."""
    cdef double steepness = p.slope - s * q.slope
    return p.x + (p.value - height(q, s * p.x + c) - total) / steepness if steepness > 0.0 else NAN


cdef void narrow(Line p1, Line p2, Line q1, Line q2, double s, double c, double total, double grain,
                 double *low, double *high) noexcept nogil:
    """Tighten [low, high] around the root of p(x) - q(s x + c) = total by tangents and chords.

    p1, p2, q1, q2 : IN, the ends of the brackets; a negative slope says that q is bounded there, not known.
    grain : IN, what rounding may do to x; bounds that cross by more come from parallel lines and are dropped.
    low, high : IN/OUT.
    """
    cdef Line p = chord(p1, p2), q = chord(q1, q2)
    cdef double left = fmax(crossing(p1, q, s, c, total), crossing(p2, q, s, c, total))
    cdef double right = high[0]
    left = fmax(left, low[0])
    if q1.slope >= 0.0:
        right = fmin(right, crossing(p, q1, s, c, total))
    if q2.slope >= 0.0:
        right = fmin(right, crossing(p, q2, s, c, total))
    if left <= right + grain:
        low[0], high[0] = left, right


cdef Line evaluate(const Excess *g, double t) noexcept nogil:
    cdef double excess, count
    peers_loops(simd_set).excess(g.entries, g.size, t, &excess, &count)
    return Line(t, excess + height(g.base, t), count + g.base.slope)


cdef void evaluate_two(const Excess *g, const Excess *h, double t, double u,
                       Line *at_t, Line *at_u) noexcept nogil:
    """g(t) and h(u), in one pass where g and h hold the same entries."""
    cdef double[2] where, excess, count
    if g.entries != h.entries:
        at_t[0] = evaluate(g, t)
        at_u[0] = evaluate(h, u)
        return
    where[0], where[1] = t, u
    peers_loops(simd_set).excess_two(g.entries, g.size, where, excess, count)
    at_t[0] = Line(t, excess[0] + height(g.base, t), count[0] + g.base.slope)
    at_u[0] = Line(u, excess[1] + height(h.base, u), count[1] + h.base.slope)


cdef void prune(Excess *g) noexcept nogil:
    """Forget the entries outside the bracket, once half of them are."""
    if g.spare == NULL or g.size < WORTH_PRUNING or 2.0 * (g.low.slope - g.high.slope) > g.size:
        return
    g.size = peers_loops(simd_set).keep(g.entries, g.size, g.low.x, g.high.x, g.spare)
    g.entries = g.spare
    g.base = g.high


cdef inline double next_point(double low, double high, double x1, double x2, int side) noexcept nogil:
    """The middle of the bounds; where they are much tighter than [x1, x2], the bound that moves the idle end.

    side : IN, the end of [x1, x2] that moved last, -1 or 1; 0 at first.
    """
    if high - low < 0.25 * (x2 - x1):
        if side > 0 and low > x1:
            return low
        if side < 0 and high < x2:
            return high
    return 0.5 * (low + high)


cdef inline double rounding(double alpha_max, double beta_max) noexcept nogil:
    """How far rounding may move a threshold."""
    return 8.0 * DBL_EPSILON * fmax(fabs(alpha_max), fabs(beta_max))


cdef double search_pair(Excess *a, Excess *b, bint improved, double tol, double grain) noexcept nogil:
    """k = 1: the lambda where sum [alpha0 - lambda]_+ = sum [beta0 + lambda]_+."""
    cdef double low, high, x = a.low.x
    cdef Line at, against
    cdef int step, side = 0
    for step in range(MAX_STEPS):
        low, high = a.low.x, a.high.x
        if improved:
            if a.low.slope == a.high.slope and b.low.slope == b.high.slope:
                return crossing(a.low, b.low, -1.0, 0.0, 0.0)
            narrow(a.low, a.high, b.low, b.high, -1.0, 0.0, 0.0, grain, &low, &high)
        x = next_point(low, high, a.low.x, a.high.x, side)
        if high - low <= fmax(tol, grain):
            break
        at, against = evaluate(a, x), evaluate(b, -x)
        if at.value > against.value:
            a.low, b.high, side = at, against, -1
        elif at.value < against.value:
            a.high, b.low, side = at, against, 1
        else:
            break
        prune(a)
        prune(b)
    return x


cdef void search_mu(const Excess *g, const Excess *h, double k, double total, double grain,
                    Line *mu, Line *delta) noexcept nogil:
    """The mu where sum min([beta0 - mu]_+, total/k) = total, by improved bisection.

    g, h : IN, the excess of beta0 near mu and near delta = mu + total/k.
    mu, delta : OUT, both thresholds with the excess and the count there.
    """
    cdef double cap = total / k, low, high, x, excess
    cdef double x1 = fmax(g.low.x, h.low.x - cap), x2 = fmin(g.high.x, h.high.x - cap)
    cdef Line p1 = g.low, p2 = g.high, q1 = h.low, q2 = h.high
    cdef bint last = False
    cdef int step, side = 0
    for step in range(MAX_STEPS):
        if p1.slope == p2.slope and q1.slope == q2.slope:
            x = p1.x if p1.slope == q1.slope else crossing(p1, q1, 1.0, cap, total)
            mu[0], delta[0] = moved(p1, x), moved(q1, x + cap)
            return
        low, high = x1, x2
        narrow(p1, p2, q1, q2, 1.0, cap, total, grain, &low, &high)
        x = next_point(low, high, x1, x2, side)
        last = high - low <= grain or x <= x1 or x >= x2
        evaluate_two(g, h, x, x + cap, mu, delta)
        excess = mu.value - delta.value - total
        if last or excess == 0.0 or (mu.slope == k and delta.slope == k):
            return
        if excess > 0.0:
            p1, q1, x1, side = mu[0], delta[0], x, -1
        else:
            p2, q2, x2, side = mu[0], delta[0], x, 1


cdef Demand demand(const Excess *g, const Excess *h, double k, double total, double grain) noexcept nogil:
    cdef Demand d
    cdef double x, y
    search_mu(g, h, k, total, grain, &d.mu, &d.delta)
    x, y = fmax(d.mu.slope - k, 0.0), fmax(k - d.delta.slope, 0.0)
    d.at.x = k * d.mu.x + d.delta.value
    d.at.value = total
    d.at.slope = k * (x + y) / (k * (x + y) - x * y) if x * y > 0.0 else 1.0
    return d


cdef bint is_zero(Excess *g, Excess *h, double k, double alpha_max) noexcept nogil:
    """Whether k max(alpha0) + (sum of the k largest beta0) <= 0.

    The sum is the least value of the convex T(t) = G(t) + k t: two tangents bound it below, any T(t) above.

    g, h : IN/OUT, the excess of beta0 near mu and near delta; what is learned tightens their brackets.
    """
    cdef Line left = h.low, right = g.high, at
    cdef double t
    cdef int step
    for step in range(MAX_STEPS):
        t = crossing(left, right, 1.0, 0.0, 0.0)
        if k * (alpha_max + t) + height(left, t) > 0.0:
            return False
        if step % 2:
            t = 0.5 * (left.x + right.x)
        if t <= left.x or t >= right.x:
            return True
        at = evaluate(g, t)
        if k * (alpha_max + t) + at.value <= 0.0:
            return True
        if at.slope >= k:
            left = h.low = at
        if at.slope <= k:
            right = g.high = at
        if at.slope == k:
            return False
    return True


cdef double search_lambda(Excess *a, Excess *g, Excess *h, double k, Demand least, Demand most,
                          bint improved, double tol, double grain, Demand *found) noexcept nogil:
    """General k: the lambda where k lambda + k mu(C) + G(delta(C)) = 0, with C = sum [alpha0 - lambda]_+.

    a, g, h : IN/OUT, the excess of alpha0 near lambda and of beta0 near mu and delta.
    least, most : IN, the demand at the two ends of the bracket, least at a.high.
    found : OUT, total and thresholds at the answer.
    """
    cdef double low, high, x
    cdef bint last = False, settled
    cdef Line at
    cdef int step, side = 0
    for step in range(MAX_STEPS):
        low, high = a.low.x, a.high.x
        settled = a.low.slope == a.high.slope and g.low.slope == g.high.slope and h.low.slope == h.high.slope
        if improved and settled:
            x = crossing(a.low, most.at if most.at.slope > 0.0 else least.at, -k, 0.0, 0.0)
            at, last = moved(a.low, x), True
        else:
            if improved:
                narrow(a.low, a.high, most.at, least.at, -k, 0.0, 0.0, grain, &low, &high)
            x = next_point(low, high, a.low.x, a.high.x, side)
            at, last = evaluate(a, x), high - low <= fmax(tol, grain)
        found[0] = demand(g, h, k, at.value, grain)
        if last or k * x + found.at.x == 0.0:
            return x
        if k * x + found.at.x > 0.0:
            a.high, g.high, h.low, least = at, found.mu, found.delta, found[0]
            side = 1
        else:
            a.low, g.low, h.high, most = at, found.mu, found.delta, found[0]
            side = -1
        prune(a)
        prune(g)
        prune(h)
    return x


cdef Excess all_entries(const double[::1] entries, double largest, double *spare) noexcept nogil:
    cdef Excess g
    g.entries, g.size, g.spare = &entries[0], entries.shape[0], spare
    g.base = g.low = g.high = Line(largest, 0.0, 0.0)
    return g


cdef void write(const double[::1] entries, double threshold, double cap, double[::1] out) noexcept nogil:
    """out = min([entries - threshold]_+, cap)."""
    cdef double d
    cdef Py_ssize_t i
    for i in range(entries.shape[0]):
        d = entries[i] - threshold
        d = d if d > 0.0 else 0.0
        out[i] = d if d < cap else cap


def project_pair(
    const double[::1] alpha,   # IN: m entries
    const double[::1] beta,    # IN: n entries
    double alpha_max,          # IN
    double beta_max,           # IN: alpha_max + beta_max > 0, else the answer is zero
    bint improved,             # IN: improved bisection, exact; else plain bisection
    bint pruned,               # IN: drop the entries that the bracket has decided
    double tol,                # IN: width of the bracket of lambda that ends the search
    double[::1] out_alpha,     # OUT: m entries
    double[::1] out_beta,      # OUT: n entries
):
    """Project on { alpha, beta >= 0, sum alpha = sum beta }: the top-k simplex with k = 1."""
    cdef Excess a = all_entries(alpha, alpha_max, &out_alpha[0] if pruned else NULL)
    cdef Excess b = all_entries(beta, beta_max, &out_beta[0] if pruned else NULL)
    cdef double threshold
    with nogil:
        a.low, b.low = evaluate(&a, -beta_max), evaluate(&b, -alpha_max)
        threshold = search_pair(&a, &b, improved, tol, rounding(alpha_max, beta_max))
        write(alpha, threshold, INFINITY, out_alpha)
        write(beta, -threshold, INFINITY, out_beta)


cdef bint bracket(Excess *a, Excess *g, Excess *h, double k, double beta_min,
                  Demand *least, Demand *most) noexcept nogil:
    """Set the first brackets: -max(beta0) < lambda < max(alpha0), and what follows for mu and delta.

    a, g, h : IN/OUT, the excess of alpha0 near lambda and of beta0 near mu and delta.
    least, most : OUT, bounds on the demand at the ends: its slope is between 1 and n/k.
    Returns whether the answer is zero.
    """
    cdef double n = g.size, alpha_max = a.high.x, beta_max = g.high.x, cap
    cdef Line floor = evaluate(g, beta_min)
    floor.slope = n                      # from the left, where every entry counts
    a.low = evaluate(a, -beta_max)
    cap = a.low.value / k
    g.low, h.low = moved(floor, beta_min - cap), floor
    h.high.x = beta_max + cap
    least.at = Line(k * beta_max, 0.0, 0.0)
    most.at = Line(-k * alpha_max, n * (beta_max + alpha_max), -1.0)
    if k < n:
        return is_zero(g, h, k, alpha_max)
    g.high = h.low = h.high = g.low      # k = n: C + k mu + G(delta) = sum(beta0), whatever mu
    least.at = most.at = Line(floor.value + n * beta_min, 0.0, 1.0)
    return n * alpha_max + least.at.x <= 0.0


def project_topk(
    const double[::1] alpha,   # IN: m entries
    const double[::1] beta,    # IN: n entries
    double k,                  # IN: 2 <= k <= n
    double alpha_max,          # IN
    double beta_min,           # IN
    double beta_max,           # IN: alpha_max + beta_max > 0, else the answer is zero
    bint improved,             # IN: improved bisection, exact; else plain bisection
    bint pruned,               # IN: drop the entries that the brackets have decided
    double tol,                # IN: width of the bracket of lambda that ends the search
    double[::1] out_alpha,     # OUT: m entries
    double[::1] out_beta,      # OUT: n entries
    double[::1] work,          # OUT: n entries of scratch space where pruned
):
    """Project on { alpha, beta >= 0, sum alpha = sum beta, beta_j <= (1/k) sum alpha }."""
    cdef Excess a = all_entries(alpha, alpha_max, &out_alpha[0] if pruned else NULL)
    cdef Excess g = all_entries(beta, beta_max, &out_beta[0] if pruned else NULL)
    cdef Excess h = all_entries(beta, beta_max, &work[0] if pruned else NULL)
    cdef Demand least, most, found
    cdef double threshold, grain
    with nogil:
        if bracket(&a, &g, &h, k, beta_min, &least, &most):
            out_alpha[:] = 0.0
            out_beta[:] = 0.0
        else:
            grain = rounding(alpha_max, beta_max)
            threshold = search_lambda(&a, &g, &h, k, least, most, improved, tol, grain, &found)
            write(alpha, threshold, INFINITY, out_alpha)
            write(beta, found.mu.x, found.at.value / k, out_beta)


def search_sizes(
    const double[::1] entries,  # IN: n entries sorted downward, then -inf
    const double[::1] sums,     # IN: n + 1 entries, sums[i] = sum of the first i
    int k,                      # IN: 1 <= k < n
    double tol,                 # IN: slack in the four comparisons
):
    """The first feasible sizes for the top-k cone: u entries at the cap, end - u between 0 and the cap.

    Every pair with u < k < end is tried in turn. Returns (u, end); (-1, -1) where none is feasible.
    """
    cdef int n = <int>sums.shape[0] - 1, u, end = 0
    cdef bint found = False
    with nogil:
        for u in range(k):
            end = k + 1
            while end <= n and not found:
                found = peers_loops(simd_set).any_pair(&entries[0], &sums[0], k, tol, u, end, min(end + BLOCK, n + 1))
                end += 0 if found else BLOCK
            if found:
                break
        if not found:
            u = end = -1
        while found and not peers_loops(simd_set).any_pair(&entries[0], &sums[0], k, tol, u, end, end + 1):
            end += 1
    return u, end
