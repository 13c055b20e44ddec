# Where to look: a sample of each vector is projected, and its answer becomes three intervals.

cdef Py_ssize_t sample_size(Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t size = <Py_ssize_t> (SAMPLE_FACTOR * pow(<double> n, 2.0 / 3.0)) // LINE * LINE
    if size < SAMPLE_LEAST:
        size = SAMPLE_LEAST
    return n if n <= 2 * size else size


cdef void copy_entries(vector x, Py_ssize_t start, Py_ssize_t count, double *out) noexcept nogil:
    cdef Py_ssize_t i
    if x.is_float32:
        for i in range(count):
            out[i] = <double> (<const float *> x.data)[start + i]
    else:
        memcpy(out, <const double *> x.data + start, count * sizeof(double))


cdef void draw_sample(vector x, Py_ssize_t size, double *out) noexcept nogil:
    """Whole lines, one at a random place in each of size / LINE equal stretches. Fixed seed: calls repeat."""
    cdef Py_ssize_t i, line, n_lines = x.n // LINE, n_drawn = size // LINE
    cdef uint64_t state = 0x9E3779B97F4A7C15ULL
    cdef double stretch = <double> n_lines / <double> (n_drawn if n_drawn > 0 else 1)
    if size == x.n:
        copy_entries(x, 0, x.n, out)
        return
    for i in range(n_drawn):
        state = state * 6364136223846793005ULL + 1442695040888963407ULL
        line = <Py_ssize_t> (stretch * (i + <double> (state >> 11) * 2.0**-53))
        copy_entries(x, LINE * (line if line < n_lines else n_lines - 1), LINE, out + LINE * i)


cdef void fill_tail(
    tail *t, const double *sample, Py_ssize_t n, double origin, anchor known, double share, double *y
) noexcept nogil:
    """All entries undecided; those that are not finite are left out (the filter refuses what must be refused).

    Where the whole vector's excess is known at some threshold, the sample only has to tell the difference from there:
    a constant makes its excess right at that threshold. It is what heavy tails need.
    """
    cdef Py_ssize_t i, kept = 0
    for i in range(n):
        y[kept] = sample[i] - origin
        kept += isfinite(sample[i])
    memset(t, 0, sizeof(tail))
    t.origin = origin
    t.y = y
    t.n = kept
    t.low = -DBL_MAX
    t.high = INFINITY
    t.at = NAN
    if isfinite(known.at):
        t.excess = known.over * share
        for i in range(kept):
            t.excess -= fmax(y[i] - (known.at - origin), 0.0)


cdef double first_finite(const double *x, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        if isfinite(x[i]):
            return x[i]
    return 0.0


cdef double largest(const double *x, Py_ssize_t n) noexcept nogil:
    cdef double most = -DBL_MAX
    cdef Py_ssize_t i
    for i in range(n):
        most = x[i] if most < x[i] < INFINITY else most
    return most


cdef double origin_of_beta(const task *t, const double *b, Py_ssize_t n, double *space) noexcept nogil:
    """A number close to the entries that matter. A sample can do with less care: it decides no digits."""
    cdef double origin
    if n < t.beta.n:
        return first_finite(b, n)
    memcpy(space, b, n * sizeof(double))
    origin = select_largest(space, n, <Py_ssize_t> floor(t.k - 0.5))
    return origin if isfinite(origin) else first_finite(b, n)


cdef double balance_of(double lower, double weight, double alpha) noexcept nogil:
    """-(lower + weight * alpha), with the rounding errors of the product and of the sum put back."""
    cdef double product = weight * alpha, lost = fma(weight, alpha, -product)
    cdef double total = lower + product, part = total - lower
    return -(total + ((lower - (total - part)) + (product - part) + lost))


cdef double scaled_k(double k, Py_ssize_t drawn, Py_ssize_t population) noexcept nogil:
    """Whole numbers must stay whole: T is flat there, and only nearly flat beside it."""
    cdef double scaled = k * <double> drawn / <double> population, whole = floor(scaled + 0.5)
    return whole if fabs(scaled - whole) <= 1e-9 * scaled and whole > 0 else scaled


cdef level_status solve_sample(
    task *t, level_problem *p, const double *a, Py_ssize_t n_a, const double *b, Py_ssize_t n_b, buffers *space
) noexcept nogil:
    cdef double origin = origin_of_beta(t, b, n_b, space.lower)
    memset(p, 0, sizeof(level_problem))
    p.scan = scan_loops(simd_set)
    p.kind = t.kind
    p.k = t.k if n_b == t.beta.n else scaled_k(t.k, n_b, t.beta.n)
    p.weight = t.weight
    p.total = t.total if n_b == t.beta.n else t.total * (<double> n_b / <double> t.beta.n)
    p.ratio = 1.0
    if n_a > 0 and (n_a != t.alpha.n or n_b != t.beta.n):
        p.ratio = (<double> t.alpha.n / <double> n_a) * (<double> n_b / <double> t.beta.n)
    cdef double share = <double> n_b / <double> t.beta.n
    fill_tail(&p.alpha, a, n_a, largest(a, n_a), t.known.alpha, <double> n_a / fmax(1, t.alpha.n), space.alpha)
    fill_tail(&p.lower, b, n_b, origin, t.known.lower, share, space.lower)
    fill_tail(&p.upper, b, n_b, origin, t.known.upper, share, space.upper)
    p.rough = isfinite(t.known.lower.at) or isfinite(t.known.upper.at)
    p.joined = not p.rough
    p.balance = balance_of(origin, t.weight, p.alpha.origin)
    return level_solve(p)


cdef double variance_of_sum(
    const double *x, Py_ssize_t n, double start, double stop, Py_ssize_t population
) noexcept nogil:
    """Variance of sum min([x - start]_+, stop - start) over a sample drawn without replacement."""
    cdef double value, total = 0.0, squares = 0.0, length = stop - start
    cdef Py_ssize_t i
    for i in range(n):
        value = x[i] - start
        value = value if value > 0.0 else 0.0
        value = value if value < length else length
        total += value
        squares += value * value
    return fmax(0.0, squares - total * total / n) * (1.0 - <double> n / <double> population)


cdef plan plan_around(task *t, level_problem *p, level_status status, double margin) noexcept nogil:
    """Intervals around an answer, as narrow as the rounding errors of its computation allow."""
    cdef plan found = t.plan
    cdef double relative = margin * ROUNDING_WIDTH
    cdef double u = p.alpha.origin + p.alpha.at
    cdef double v = p.lower.origin + p.lower.at, w = p.upper.origin + p.upper.at
    cdef double slack_v = fabs(v), slack_w = fabs(w), slack_u
    if status == SOLVED:
        slack_v += (p.lower.over + p.k * fabs(p.lower.at)) / (p.lower.n_above - p.k)
        slack_w += (p.upper.over + p.k * fabs(p.upper.at)) / (p.k - p.upper.n_above)
    slack_u = fabs(u) + (
        (slack_v if status == SOLVED else 0.0) + slack_w * fmax(1.0, p.upper.n_above / p.k) + p.upper.over / p.k
    ) / t.weight
    found.joined = status != SOLVED
    found.upper = interval(w, relative * slack_w, relative * slack_w)
    found.lower = interval(v, relative * slack_v, relative * slack_v)
    if v == -INFINITY:  # k = n: every entry of beta is above mu
        found.upper = found.lower = interval(p.lower.origin, INFINITY, -INFINITY)
        slack_u = fabs(u)
    elif found.joined:
        found.upper.below += w - v + found.lower.below
        found.lower = found.upper
    if isfinite(u) and status != ZERO:
        found.alpha = interval(u, relative * slack_u, relative * slack_u)
    return found


cdef double error_of_excess(
    const double *x, Py_ssize_t n, double threshold, anchor known, Py_ssize_t population
) noexcept nogil:
    """Variance of a sampled excess that is exact at a known threshold."""
    cdef double start = fmin(threshold, known.at), stop = fmax(threshold, known.at)
    cdef double variance = variance_of_sum(x, n, start, stop, population)
    if isfinite(stop):  # a sample that shows no entry in between may have missed one
        variance = fmax(variance, (stop - start) ** 2 * (1.0 - <double> n / <double> population))
    return variance


cdef interval centred(double at, double width, double rounding, const double *x, Py_ssize_t n) noexcept nogil:
    """Around a threshold, but not so wide that many entries stay undecided: to fail and learn is cheaper."""
    cdef Py_ssize_t i, inside = n
    cdef int halving
    for halving in range(64):
        inside = 0
        for i in range(n):
            inside += fabs(x[i] - at) < width
        if inside <= MOST_UNDECIDED * n:
            break
        width /= 2
    return interval(at, width + rounding, width + rounding)


cdef void widths_from_sample(
    task *t, level_problem *p, const double *a, Py_ssize_t n_a, const double *b, Py_ssize_t n_b
) noexcept nogil:
    """Half widths of the intervals, by the delta method: errors of the three sums through the linearised system."""
    cdef double u = p.alpha.origin + p.alpha.at
    cdef double v = p.lower.origin + p.lower.at, w = p.upper.origin + p.upper.at
    cdef double x = p.lower.n_above - p.k, y = p.k - p.upper.n_above, k = p.k
    cdef double pull = p.ratio * p.alpha.n_above / t.weight
    cdef double row_v = pull + k, row_w = pull * p.upper.n_above / k + k, share = pull / k
    if t.kind == TOPK_CONE:  # lambda is pinned: the limit of an infinite pull
        row_v, row_w, share = k, p.upper.n_above, 1.0
    cdef double e1 = 0.0
    if n_a > 0:
        e1 = p.ratio * p.ratio * error_of_excess(a, n_a, u, t.known.alpha, t.alpha.n)
    cdef double e3 = error_of_excess(b, n_b, w, t.known.upper, t.beta.n)
    cdef double e2 = e3 + error_of_excess(b, n_b, v, t.known.lower, t.beta.n)
    if not isfinite(t.known.upper.at):
        e2 = variance_of_sum(b, n_b, v, w, t.beta.n)
    cdef double scale = STANDARD_ERRORS / (row_v * y + row_w * x), right = e1 + share * share * e3
    cdef double width_v = scale * sqrt(y * y * right + row_w * row_w * e2)
    cdef double width_w = scale * sqrt(x * x * right + row_v * row_v * e2)
    cdef double width_u = sqrt(
        STANDARD_ERRORS * STANDARD_ERRORS * e3 / (k * k) + width_v * width_v + (p.upper.n_above * width_w / k) ** 2
    ) / t.weight
    cdef plan around = plan_around(t, p, SOLVED, 1.0)
    t.plan.alpha = centred(u, width_u, around.alpha.above, a, n_a)
    t.plan.lower = centred(v, width_v, around.lower.above, b, n_b)
    t.plan.upper = centred(w, width_w, around.upper.above, b, n_b)
    t.plan.joined = False
    if not isfinite(width_u + width_v + width_w):  # the squares overflowed, or the system is singular
        open_everything(t)


cdef bint trim_guess(task *t) noexcept nogil:
    """Narrow a guess that would leave too many entries undecided. Returns False when memory runs out."""
    cdef Py_ssize_t n_a = sample_size(t.alpha.n), n_b = sample_size(t.beta.n)
    cdef double *x = allocate(n_a if n_a > n_b else n_b)
    if x == NULL:
        return False
    draw_sample(t.alpha, n_a, x)
    t.plan.alpha = centred(t.plan.alpha.origin, t.plan.alpha.above, 0.0, x, n_a)
    draw_sample(t.beta, n_b, x)
    t.plan.lower = centred(t.plan.lower.origin, t.plan.lower.above, 0.0, x, n_b)
    t.plan.upper = centred(t.plan.upper.origin, t.plan.upper.above, 0.0, x, n_b)
    free(x)
    return True


cdef void open_everything(task *t) noexcept nogil:
    t.plan.alpha.below = t.plan.alpha.above = INFINITY
    t.plan.lower.below = t.plan.lower.above = INFINITY
    t.plan.upper = t.plan.lower
    t.plan.joined = True


cdef bint plan_from_sample(task *t) noexcept nogil:
    """Intervals for the three thresholds. Returns False when memory runs out."""
    cdef Py_ssize_t n_a = sample_size(t.alpha.n), n_b = sample_size(t.beta.n)
    cdef double *a = allocate(n_a)
    cdef double *b = allocate(n_b)
    cdef buffers space
    cdef level_problem p
    cdef level_status status
    cdef bint fits = allocate_buffers(&space, n_a, n_b) and a != NULL and b != NULL
    if fits:
        draw_sample(t.alpha, n_a, a)
        draw_sample(t.beta, n_b, b)
        status = solve_sample(t, &p, a, n_a, b, n_b, &space)
        if status == SOLVED:
            widths_from_sample(t, &p, a, n_a, b, n_b)
        elif status == SOLVED_FLAT or status == ZERO:
            widths_from_flat_sample(t, &p, a, n_a, b, n_b)
        else:
            t.plan.alpha.origin = t.plan.lower.origin = 0.0
            open_everything(t)
    free_buffers(&space)
    free(a)
    free(b)
    return fits


cdef double ranked(double *x, Py_ssize_t n, double rank) noexcept nogil:
    """The entry of that rank, 0 for the largest; infinite past the ends. Permutes x."""
    if rank < 0:
        return INFINITY
    return select_largest(x, n, <Py_ssize_t> rank) if rank < n else -INFINITY


cdef void widths_from_flat_sample(
    task *t, level_problem *p, const double *a, Py_ssize_t n_a, double *b, Py_ssize_t n_b
) noexcept nogil:
    """Around a flat or zero answer both thresholds of beta are sought in one interval. Permutes b."""
    cdef double u = p.alpha.origin + p.alpha.at
    cdef double low = p.lower.origin + p.lower.at, high = p.upper.origin + p.upper.at
    cdef double rounding = ROUNDING_WIDTH * fabs(u) * t.weight
    cdef double level_error, error, ranks
    t.plan.alpha.origin = t.plan.lower.origin = 0.0
    open_everything(t)
    if isnan(low) or isnan(high):  # no threshold was ever tried: too few finite entries in the sample
        return
    t.plan.alpha.origin = u if isfinite(u) else 0.0
    if low == -INFINITY:  # k = n: every entry of beta is above mu, and their sum decides
        t.plan.lower = interval(p.lower.origin, INFINITY, -INFINITY)
        level_error = variance_of_sum(b, n_b, ranked(b, n_b, n_b - 1), INFINITY, t.beta.n)
    else:
        level_error = variance_of_sum(b, n_b, low, INFINITY, t.beta.n)
        rounding = fmax(rounding, ROUNDING_WIDTH * fabs(high))
        ranks = STANDARD_ERRORS * sqrt(p.k * (1.0 - p.k / n_b)) * sqrt(1.0 - <double> n_b / t.beta.n)
        if n_b < t.beta.n:
            ranks += 2.0
            low = ranked(b, n_b, p.k + ranks)
            high = ranked(b, n_b, p.k - ranks)
        t.plan.lower.origin = p.upper.origin + p.upper.at  # close to the entries that matter
        t.plan.lower.below = t.plan.lower.origin - low + ROUNDING_WIDTH * fabs(low)
        t.plan.lower.above = high - t.plan.lower.origin + ROUNDING_WIDTH * fabs(high)
    t.plan.upper = t.plan.lower
    if n_a > 0 and isfinite(u):
        error = level_error + p.ratio * p.ratio * error_of_excess(a, n_a, u, t.known.alpha, t.alpha.n)
        error = STANDARD_ERRORS * sqrt(error) / (p.ratio * p.alpha.n_above + p.k * t.weight) + rounding / t.weight
        if isfinite(error):
            t.plan.alpha = interval(u, error, error)
        if p.alpha.n_above == 0:  # zero: all that matters is that no entry comes near the threshold
            t.plan.alpha = interval(u, fmax(error, (u - largest(a, n_a)) / 2), INFINITY)
