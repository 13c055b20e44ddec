/* Passes over vectors, for the instruction set that the file is compiled for (sets.h). */
#include "lanes.h"
#include "scan.h"

/* Entries between two additions to the exact running sum: long enough to cost little, short enough to lose little. */
#define BLOCK 128

/* Outputs of this size are written past the caches, which leaves room there for the inputs. */
#define STREAM_BYTES (4 << 20)

/* Entries ahead of the present one to ask memory for. */
#define AHEAD 512
#if defined(__GNUC__)
#define PREFETCH(p) __builtin_prefetch(p)
#else
#define PREFETCH(p) ((void)(p))
#endif

/* A split while its pass is under way, in registers. */
typedef struct {
    vec low, high, clip, origin, anchor, partial;
    exact_sum excess;
    double *kept;
    ptrdiff_t n_kept, count;
} running;

static inline running running_start(const split *s) {
    running r = {
        vec_set1(s->low),    vec_set1(s->high), vec_set1(s->clip), vec_set1(s->origin),
        vec_set1(s->anchor), vec_set1(0.0),     exact_zero(),      s->kept,
        0,                   0,
    };
    return r;
}

static inline void running_step(running *r, vec x) {
    x = vec_min(x, r->clip);
    mask above = vec_ge(x, r->high);
    r->partial = vec_add_where(r->partial, above, vec_sub(x, r->anchor));
    r->count += mask_count(above);
    r->n_kept += vec_compress(r->kept + r->n_kept, mask_andnot(above, vec_ge(x, r->low)), vec_sub(x, r->origin));
}

static inline void running_block(running *r) {
    exact_add(&r->excess, r->partial);
    r->partial = vec_set1(0.0);
}

static inline void running_finish(const running *r, split *s) {
    s->n_kept = r->n_kept;
    s->count = (double)r->count;
    s->excess = exact_total(r->excess);
}

static inline vec load_padded(const double *y, ptrdiff_t n) {
    double lane[LANES];
    for (int l = 0; l < LANES; l++) lane[l] = l < n ? y[l] : -INFINITY;
    return vec_load_f64(lane);
}

static void evaluate(const double *y, ptrdiff_t n, double t, int ties, double *count, double *excess) {
    const vec threshold = vec_set1(t), zero = vec_set1(0.0);
    exact_sum total = exact_zero();
    ptrdiff_t above = 0;
    for (ptrdiff_t start = 0; start < n; start += BLOCK) {
        ptrdiff_t end = start + BLOCK < n ? start + BLOCK : n, i = start;
        vec even = zero, odd = zero; /* two chains hide the latency of the addition */
        for (; i + 2 * LANES <= end; i += 2 * LANES) {
            vec v = vec_load_f64(y + i), w = vec_load_f64(y + i + LANES);
            above += mask_count(ties ? vec_ge(v, threshold) : vec_gt(v, threshold));
            above += mask_count(ties ? vec_ge(w, threshold) : vec_gt(w, threshold));
            even = vec_add(even, vec_max(vec_sub(v, threshold), zero));
            odd = vec_add(odd, vec_max(vec_sub(w, threshold), zero));
        }
        for (; i < end; i += LANES) {
            vec v = i + LANES <= end ? vec_load_f64(y + i) : load_padded(y + i, end - i);
            above += mask_count(ties ? vec_ge(v, threshold) : vec_gt(v, threshold));
            even = vec_add(even, vec_max(vec_sub(v, threshold), zero));
        }
        exact_add(&total, vec_add(even, odd));
    }
    *count = (double)above;
    *excess = exact_total(total);
}

/* In place: the write position never passes the read position. */
static ptrdiff_t prune(double *y, ptrdiff_t n, double low, double high, double *count, double *excess) {
    split s = {low, high, INFINITY, 0.0, 0.0, y, 0, 0.0, 0.0};
    running r = running_start(&s);
    for (ptrdiff_t start = 0; start < n; start += BLOCK) {
        ptrdiff_t end = start + BLOCK < n ? start + BLOCK : n, i = start;
        for (; i < end; i += LANES)
            running_step(&r, i + LANES <= end ? vec_load_f64(y + i) : load_padded(y + i, end - i));
        running_block(&r);
    }
    running_finish(&r, &s);
    *count += s.count;
    *excess += s.excess;
    return s.n_kept;
}

#define T double
#define LOAD vec_load_f64
#define STORE vec_store_f64
#define STREAM vec_stream_f64
#define NAME(x) x##_f64
#include "scan_impl.h"
#undef T
#undef LOAD
#undef STORE
#undef STREAM
#undef NAME

#define T float
#define LOAD vec_load_f32
#define STORE vec_store_f32
#define STREAM vec_stream_f32
#define NAME(x) x##_f32
#include "scan_impl.h"

TABLE_OF_THIS_SET(scan) = {
    {filter_one_f64, filter_one_f32},
    {filter_two_f64, filter_two_f32},
    evaluate,
    prune,
    {write_excess_f64, write_excess_f32},
    {write_capped_f64, write_capped_f32},
};
