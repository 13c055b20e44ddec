/* The passes of scan.h for one element type. Included twice, with T, LOAD, STORE and NAME(x) defined. */

static inline vec NAME(load_tail)(const T *x, ptrdiff_t n) {
    T lane[LANES];
    for (int l = 0; l < LANES; l++) lane[l] = l < n ? x[l] : (T)-INFINITY; /* -inf never counts */
    return LOAD(lane);
}

static inline void NAME(store_tail)(T *out, ptrdiff_t n, vec x) {
    T lane[LANES];
    STORE(lane, x);
    for (ptrdiff_t l = 0; l < n; l++) out[l] = lane[l];
}

/* `t` may be NULL: the compiler then drops its half of the work. */
static inline int NAME(filter)(const T *x, ptrdiff_t n, split *s, split *t) {
    running r = running_start(s), q = running_start(t ? t : s);
    const vec largest = vec_set1(DBL_MAX);
    unsigned fine = 0xFF;
    for (ptrdiff_t start = 0; start < n; start += BLOCK) {
        ptrdiff_t end = start + BLOCK < n ? start + BLOCK : n;
        for (ptrdiff_t i = start; i < end; i += LANES) {
            vec v = i + LANES <= end ? LOAD(x + i) : NAME(load_tail)(x + i, end - i);
            fine &= mask_bits(vec_ge(largest, v));
            running_step(&r, v);
            if (t) running_step(&q, v);
        }
        running_block(&r);
        if (t) running_block(&q);
    }
    running_finish(&r, s);
    if (t) running_finish(&q, t);
    return fine != 0xFF;
}

static int NAME(filter_one)(const void *x, ptrdiff_t n, split *s) { return NAME(filter)(x, n, s, NULL); }

static int NAME(filter_two)(const void *x, ptrdiff_t n, split *s, split *t) { return NAME(filter)(x, n, s, t); }

static double NAME(write_excess)(const void *data, void *result, ptrdiff_t n, double origin, double offset) {
    const T *x = data;
    T *out = result;
    const vec o = vec_set1(origin), u = vec_set1(offset), zero = vec_set1(0.0);
    exact_sum total = exact_zero();
    for (ptrdiff_t start = 0; start < n; start += BLOCK) {
        ptrdiff_t end = start + BLOCK < n ? start + BLOCK : n, i = start;
        vec sum = zero;
        for (; i + LANES <= end; i += LANES) {
            vec v = vec_max(vec_sub(vec_sub(LOAD(x + i), o), u), zero);
            sum = vec_add(sum, v);
            STORE(out + i, v);
        }
        if (i < end) {
            vec v = vec_max(vec_sub(vec_sub(NAME(load_tail)(x + i, end - i), o), u), zero);
            sum = vec_add(sum, v);
            NAME(store_tail)(out + i, end - i, v);
        }
        exact_add(&total, sum);
    }
    return exact_total(total);
}

static double NAME(write_capped)(const void *data, void *result, ptrdiff_t n, double origin, double offset,
                                 double cap, double *n_free) {
    const T *x = data;
    T *out = result;
    const vec o = vec_set1(origin), u = vec_set1(offset), zero = vec_set1(0.0), top = vec_set1(cap);
    exact_sum total = exact_zero();
    ptrdiff_t n_positive = 0, n_capped = 0;
    for (ptrdiff_t start = 0; start < n; start += BLOCK) {
        ptrdiff_t end = start + BLOCK < n ? start + BLOCK : n, i = start;
        vec sum = zero;
        for (; i + LANES <= end; i += LANES) {
            vec v = vec_sub(vec_sub(LOAD(x + i), o), u);
            n_positive += mask_count(vec_gt(v, zero));
            n_capped += mask_count(vec_ge(v, top));
            v = vec_min(vec_max(v, zero), top);
            sum = vec_add(sum, v);
            STORE(out + i, v);
        }
        if (i < end) {
            vec v = vec_sub(vec_sub(NAME(load_tail)(x + i, end - i), o), u);
            n_positive += mask_count(vec_gt(v, zero));
            n_capped += mask_count(vec_ge(v, top));
            v = vec_min(vec_max(v, zero), top);
            sum = vec_add(sum, v);
            NAME(store_tail)(out + i, end - i, v);
        }
        exact_add(&total, sum);
    }
    *n_free = (double)(n_positive - n_capped);
    return exact_total(total);
}
