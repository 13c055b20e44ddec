"""Exact projections near the speed of memory: sample, filter, solve, write (see docs/projection.md).

Python code allocates and checks; these kernels only compute. Vectors are C-contiguous float32 or float64, thresholds
and sums are double. Every function releases the GIL and allocates nothing that outlives it.
"""

include "simd.pxi"
include "_projection_types.pxi"
include "_projection_plan.pxi"
include "_projection_find.pxi"


cdef void rebase(tail *t) noexcept nogil:
    """Move the origin to the threshold, so that entries close to it are subtracted without rounding."""
    cdef double origin = t.origin + t.at, part = origin - t.origin
    if isfinite(origin):
        t.at = (t.origin - (origin - part)) + (t.at - part)
        t.origin = origin


cdef bint write_beta(task *t, level_problem *p, void *out, double total, double cap) noexcept nogil:
    """Beta under its cap, with mu nudged until the sum is right to a few ulps. Returns False if it stays far off."""
    cdef double written, n_free
    cdef int attempt
    for attempt in range(4):
        written = p.scan.write_capped[t.beta.is_float32](
            t.beta.data, out, t.beta.n, p.lower.origin, p.lower.at, cap, &n_free
        )
        n_free = fmax(n_free, p.n_free)
        if fabs(written - total) <= SUM_TOLERANCE * total or n_free == 0:
            break
        p.lower.at += (written - total) / n_free
    return fabs(written - total) <= FAR_OFF * total + t.beta.n * DBL_MIN


cdef outcome project(
    task *t, void *out_alpha, void *out_beta, bint has_guess, double *answer
) noexcept nogil:
    """Answer: lambda / weight, mu, total, and how far each threshold lay from where it was expected."""
    cdef buffers space
    cdef level_problem p
    cdef outcome result = c_NO_MEMORY
    cdef double total, cap
    if allocate_buffers(&space, t.alpha.n, t.beta.n):
        result = find_thresholds(t, &p, &space, has_guess)
    free_buffers(&space)
    if result != c_FOUND:
        return result
    answer[3] = fabs(p.alpha.at)
    answer[4] = fabs(p.lower.at)
    answer[5] = fabs(p.upper.at)
    rebase(&p.alpha)
    if p.n_free > 0:  # else mu is an entry of beta, and must stay so to the last bit
        rebase(&p.lower)
    total = p.solution
    if t.kind == TOPK_SIMPLEX:
        total = p.scan.write_excess[t.alpha.is_float32](
            t.alpha.data, out_alpha, t.alpha.n, p.alpha.origin, p.alpha.at
        )
    cap = t.cap if t.kind == CAPPED_SIMPLEX else total / t.k
    if not write_beta(t, &p, out_beta, total, cap):
        return c_OVERFLOW
    answer[0] = p.alpha.origin + p.alpha.at
    answer[1] = p.lower.origin + p.lower.at
    answer[2] = total
    return c_FOUND


ctypedef fused real:
    float
    double


cdef vector as_vector(const real[::1] x) noexcept:
    cdef vector v
    v.data = &x[0]
    v.n = x.shape[0]
    v.is_float32 = real is float
    return v


cdef void use_guess(task *t, guess):
    """Guess: lambda / weight, mu, delta and a half width for each."""
    t.plan.alpha = interval(guess[0], guess[3], guess[3])
    t.plan.lower = interval(guess[1], guess[4], guess[4])
    t.plan.upper = interval(guess[2], guess[5], guess[5])
    t.plan.joined = False


cdef tuple run(task *t, void *out_alpha, void *out_beta, guess):
    cdef double answer[6]
    cdef outcome result
    cdef bint has_guess = guess is not None
    if has_guess:
        use_guess(t, guess)
    memset(answer, 0, sizeof(answer))
    with nogil:
        result = project(t, out_alpha, out_beta, has_guess, answer)
    if result == c_NO_MEMORY:
        raise MemoryError("not enough memory for the work space of a projection")
    return result, answer[0], answer[1], answer[2], answer[3], answer[4], answer[5], t.n_passes


def topk_simplex(
    const real[::1] alpha, const real[::1] beta, double k, double weight, real[::1] out_alpha, real[::1] out_beta, guess
):
    """Project (alpha IN, beta IN) on the top-k simplex into (out_alpha OUT, out_beta OUT).

    Returns the exit code, lambda / weight, mu, the total, the distance of each threshold from its guess, and the
    number of filter passes.
    The outputs are written only where the exit code is FOUND.
    """
    cdef task t
    memset(&t, 0, sizeof(task))
    t.kind = TOPK_SIMPLEX
    t.alpha = as_vector(alpha)
    t.beta = as_vector(beta)
    t.k = k
    t.weight = weight
    return run(&t, &out_alpha[0], &out_beta[0], guess)


def topk_cone(const real[::1] beta, double k, real[::1] out_beta, guess):
    """Project beta IN on the top-k cone into out_beta OUT. Returns as topk_simplex does."""
    cdef task t
    memset(&t, 0, sizeof(task))
    t.kind = TOPK_CONE
    t.beta = as_vector(beta)
    t.k = k
    t.weight = 1.0
    return run(&t, NULL, &out_beta[0], guess)


def capped_simplex(const real[::1] beta, double total, double cap, double k, real[::1] out_beta, guess):
    """Project beta IN on {0 <= beta <= cap, sum beta = total} into out_beta OUT. Returns as topk_simplex does.

    k is total / cap, a whole number wherever it should be one.
    """
    cdef task t
    memset(&t, 0, sizeof(task))
    t.kind = CAPPED_SIMPLEX
    t.beta = as_vector(beta)
    t.k = k
    t.total = total
    t.cap = cap
    t.weight = 1.0
    return run(&t, NULL, &out_beta[0], guess)
