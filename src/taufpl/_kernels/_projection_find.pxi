# Finding the thresholds: filter by the plan, solve, and make a better plan where that fails.

cdef void set_split(split *s, interval i, double clip, double *kept) noexcept nogil:
    s.low = fmax(i.origin - i.below, -DBL_MAX)  # minus infinity is below everything
    s.high = fmax(i.origin + i.above, -DBL_MAX)
    s.clip = clip
    s.origin = s.anchor = i.origin
    s.kept = kept


cdef void set_tail(tail *t, split *s) noexcept nogil:
    memset(t, 0, sizeof(tail))
    t.origin = s.origin
    t.y = s.kept
    t.n = s.n_kept
    t.count = s.count
    t.excess = s.excess
    t.low = fmax(s.low - s.origin, -DBL_MAX) if s.low > -DBL_MAX else -DBL_MAX
    t.high = fmax(s.high - s.origin, -DBL_MAX) if s.high > -DBL_MAX else -DBL_MAX
    t.at = NAN


cdef void set_clipped_tail(tail *t, split *s) noexcept nogil:
    """A tail whose decided entries all count as s.high."""
    set_tail(t, s)
    t.excess = s.count * (s.high - s.origin) if s.count > 0 else 0.0


cdef bint filter_alpha(task *t, level_problem *p, buffers *space) noexcept nogil:
    cdef split s
    cdef bint bad
    set_split(&s, t.plan.alpha, INFINITY, space.alpha)
    bad = p.scan.filter_one[t.alpha.is_float32](t.alpha.data, t.alpha.n, &s)
    set_tail(&p.alpha, &s)
    return bad


cdef bint filter_beta(task *t, level_problem *p, buffers *space) noexcept nogil:
    """Entries far above delta only count: their size matters to lambda alone, and goes into the residue."""
    cdef split lower, upper
    cdef bint bad
    set_split(&upper, t.plan.upper, INFINITY, space.upper)
    set_split(&lower, t.plan.lower, upper.high, space.lower)
    upper.anchor = upper.high
    if t.plan.lower.above == -INFINITY:  # k = n: the sum of all entries is all that matters
        lower.clip = INFINITY
        bad = p.scan.filter_one[t.beta.is_float32](t.beta.data, t.beta.n, &lower)
        set_tail(&p.lower, &lower)
        p.upper = p.lower
        p.residue = 0.0
        return bad
    if t.plan.joined:
        bad = p.scan.filter_one[t.beta.is_float32](t.beta.data, t.beta.n, &upper)
        set_clipped_tail(&p.lower, &upper)
        p.lower.y = space.lower
        memcpy(space.lower, space.upper, upper.n_kept * sizeof(double))
    else:
        bad = p.scan.filter_two[t.beta.is_float32](t.beta.data, t.beta.n, &lower, &upper)
        set_tail(&p.lower, &lower)
    set_clipped_tail(&p.upper, &upper)
    p.residue = upper.excess
    return bad


cdef bint filter_vectors(task *t, level_problem *p, buffers *space) noexcept nogil:
    """One pass over each vector. Returns False where an entry is NaN or plus infinity."""
    cdef bint bad = filter_beta(t, p, space)
    if t.alpha.n > 0:
        bad |= filter_alpha(t, p, space)
        p.balance = balance_of(p.lower.origin, t.weight, p.alpha.origin)
    p.joined = t.plan.joined
    p.gap = p.upper.origin - p.lower.origin
    return not bad


cdef void open_side(interval *i, int side) noexcept nogil:
    if side < 0:
        i.below = INFINITY
    else:
        i.above = INFINITY


cdef void join(plan *to) noexcept nogil:
    """One interval for both thresholds of beta, from the lowest point of the two to the highest."""
    cdef double low = fmin(to.lower.origin - to.lower.below, to.upper.origin - to.upper.below)
    cdef double high = fmax(to.lower.origin + to.lower.above, to.upper.origin + to.upper.above)
    to.upper.below = to.upper.origin - low  # the upper one is closer to the entries that matter
    to.upper.above = high - to.upper.origin
    to.lower = to.upper
    to.joined = True


cdef void learn(anchor *known, const tail *t, double residue) noexcept nogil:
    if isfinite(t.at) and isfinite(t.over):
        known.at = t.origin + t.at
        known.over = t.over + residue


cdef bint replan(task *t, level_problem *p, level_status status, int attempt) noexcept nogil:
    """After a plan that failed: first the sample again, with what the pass has taught; then open intervals."""
    if status == NEEDS_JOIN:
        join(&t.plan)
        return True
    if attempt <= RESAMPLE and not t.plan.joined:
        learn(&t.known.alpha, &p.alpha, 0.0)
        learn(&t.known.lower, &p.lower, p.residue)
        learn(&t.known.upper, &p.upper, p.residue)
        return plan_from_sample(t)
    if p.outside == &p.alpha:
        open_side(&t.plan.alpha, p.side)
    else:
        open_side(&t.plan.lower if p.outside == &p.lower or t.plan.joined else &t.plan.upper, p.side)
    if t.plan.joined:
        t.plan.upper = t.plan.lower
    return True


cdef bint is_coarse(const task *t, const level_problem *p, level_status status) noexcept nogil:
    """Whether sums were taken over so wide a range, for so small an answer, that digits were lost."""
    cdef double u = p.alpha.origin + p.alpha.at
    cdef double widest = fmax(t.plan.upper.above, fabs(p.upper.at))
    if status == ZERO:  # nothing to measure by: look again only if nothing was left out, and there was something
        return t.plan.upper.above == INFINITY and isfinite(p.upper.at)
    if t.kind == TOPK_SIMPLEX and fabs(p.alpha.at) > COARSE * (fabs(u) + p.solution / fmax(1.0, p.alpha.n_above)):
        return True
    if p.lower.at == -INFINITY:
        return False  # k = n: one sum over everything, and no thresholds
    if not t.plan.joined:
        widest = fmax(widest, fmax(t.plan.lower.below, t.plan.lower.above))
    return widest > COARSE * p.solution / t.k


cdef outcome verdict(const level_problem *p, level_status status) noexcept nogil:
    """An overflow may look like anything, zero included."""
    if not (isfinite(p.upper.over + p.residue) and isfinite(p.balance + p.gap) and isfinite(p.alpha.over)):
        return c_OVERFLOW
    if status == ZERO:
        return c_ZERO_ANSWER
    return c_FOUND if isfinite(p.solution) and isfinite(p.alpha.at) else c_OVERFLOW


cdef outcome find_thresholds(task *t, level_problem *p, buffers *space, bint has_guess) noexcept nogil:
    cdef level_status status
    cdef int attempt = 0, refinements = 0
    cdef bint solved
    cdef double margin = 1.0
    t.known.alpha.at = t.known.lower.at = t.known.upper.at = INFINITY
    if t.k == t.beta.n or (sample_size(t.beta.n) == t.beta.n and sample_size(t.alpha.n) == t.alpha.n):
        has_guess = False  # small vectors are solved faster than a guess is checked, and k = n needs no thresholds
    if not (trim_guess(t) if has_guess else plan_from_sample(t)):
        return c_NO_MEMORY
    memset(p, 0, sizeof(level_problem))
    p.scan = scan_loops(simd_set)
    p.kind = t.kind
    p.k = t.k
    p.weight = t.weight
    p.total = t.total
    p.ratio = 1.0
    while True:
        if not filter_vectors(t, p, space):
            return c_BAD_VALUE
        status = level_solve(p)
        if status == INFEASIBLE:
            return c_NOT_FEASIBLE
        t.n_passes += 1
        solved = status == SOLVED or status == SOLVED_FLAT
        if has_guess and (not solved or is_coarse(t, p, status)):
            has_guess = False  # it was off, and what it taught has lost digits
            if not plan_from_sample(t):
                return c_NO_MEMORY
            continue
        if solved or status == ZERO:
            if refinements == REFINE or not is_coarse(t, p, status):
                return verdict(p, status)
            t.plan = plan_around(t, p, status, margin)
            refinements += 1
            continue
        attempt += 1
        if attempt > OPEN_AFTER + 1 + REFINE:
            return c_OVERFLOW  # with every interval open only an overflow leaves a threshold without a place
        if status == OUTSIDE and (attempt > OPEN_AFTER or refinements > 0):
            open_everything(t)
            margin *= 1024.0
        elif not replan(t, p, status, attempt):
            return c_NO_MEMORY
