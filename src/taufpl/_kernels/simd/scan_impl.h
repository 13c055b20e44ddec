/* The passes of scan.h for one element type. Included twice, with T, LOAD, STORE, STREAM and NAME(x) defined. */

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
            PREFETCH(x + i + AHEAD);
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

/* Writing min([(x - origin) - offset]_+, cap), while it is under way. */
typedef struct {
    vec origin, offset, cap, sum;
    ptrdiff_t n_positive, n_capped;
} NAME(writer);

static inline vec NAME(write_step)(NAME(writer) *w, vec x, int capped) {
    const vec zero = vec_set1(0.0);
    vec v = vec_sub(vec_sub(x, w->origin), w->offset);
    if (capped) {
        w->n_positive += mask_count(vec_gt(v, zero));
        w->n_capped += mask_count(vec_ge(v, w->cap));
        v = vec_min(vec_max(v, zero), w->cap);
    } else {
        v = vec_max(v, zero);
    }
    w->sum = vec_add(w->sum, v);
    return v;
}

/* `capped` and `stream` are constants where this is inlined. */
static inline double NAME(write_all)(NAME(writer) *w, const T *x, T *out, ptrdiff_t n, int capped, int stream) {
    exact_sum total = exact_zero();
    for (ptrdiff_t start = 0; start < n; start += BLOCK) {
        ptrdiff_t end = start + BLOCK < n ? start + BLOCK : n, i = start;
        for (; i + LANES <= end; i += LANES) {
            PREFETCH(x + i + AHEAD);
            vec v = NAME(write_step)(w, LOAD(x + i), capped);
            if (stream) STREAM(out + i, v);
            else STORE(out + i, v);
        }
        if (i < end) NAME(store_tail)(out + i, end - i, NAME(write_step)(w, NAME(load_tail)(x + i, end - i), capped));
        exact_add(&total, w->sum);
        w->sum = vec_set1(0.0);
    }
    if (stream) vec_stream_end();
    return exact_total(total);
}

/* An output too large for the caches is written past them; unaligned ones are rare and take the usual way. */
static inline double NAME(write)(NAME(writer) *w, const T *x, T *out, ptrdiff_t n, int capped) {
    int stream = n * (ptrdiff_t)sizeof(T) >= STREAM_BYTES && (uintptr_t)out % 16 == 0;
    return stream ? NAME(write_all)(w, x, out, n, capped, 1) : NAME(write_all)(w, x, out, n, capped, 0);
}

static double NAME(write_excess)(const void *x, void *out, ptrdiff_t n, double origin, double offset) {
    NAME(writer) w = {vec_set1(origin), vec_set1(offset), vec_set1(0.0), vec_set1(0.0), 0, 0};
    return NAME(write)(&w, x, out, n, 0);
}

static double NAME(write_capped)(const void *x, void *out, ptrdiff_t n, double origin, double offset, double cap,
                                 double *n_free) {
    NAME(writer) w = {vec_set1(origin), vec_set1(offset), vec_set1(cap), vec_set1(0.0), 0, 0};
    double sum = NAME(write)(&w, x, out, n, 1);
    *n_free = (double)(w.n_positive - w.n_capped);
    return sum;
}
