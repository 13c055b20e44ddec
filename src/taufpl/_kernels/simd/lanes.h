/* Eight double lanes, whatever the machine.
 *
 * TAUFPL_AVX512, TAUFPL_AVX2 or neither is defined (plain). Every variant does the same additions in the same order, so
 * that results are the same to the last bit on every machine.
 */
#ifndef TAUFPL_LANES_H
#define TAUFPL_LANES_H

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LANES 8

#if defined(TAUFPL_AVX512)
#include <immintrin.h>

typedef __m512d vec;
typedef __mmask8 mask;

static inline vec vec_set1(double x) { return _mm512_set1_pd(x); }
static inline vec vec_load_f64(const double *p) { return _mm512_loadu_pd(p); }
static inline vec vec_load_f32(const float *p) { return _mm512_cvtps_pd(_mm256_loadu_ps(p)); }
static inline void vec_store_f64(double *p, vec x) { _mm512_storeu_pd(p, x); }
static inline void vec_store_f32(float *p, vec x) { _mm256_storeu_ps(p, _mm512_cvtpd_ps(x)); }
/* Past the caches. Sixteen bytes at a time, because that is how NumPy aligns its arrays. */
static inline void vec_stream_f64(double *p, vec x) {
    _mm_stream_pd(p, _mm512_castpd512_pd128(x));
    _mm_stream_pd(p + 2, _mm256_extractf128_pd(_mm512_castpd512_pd256(x), 1));
    _mm_stream_pd(p + 4, _mm256_castpd256_pd128(_mm512_extractf64x4_pd(x, 1)));
    _mm_stream_pd(p + 6, _mm256_extractf128_pd(_mm512_extractf64x4_pd(x, 1), 1));
}
static inline void vec_stream_f32(float *p, vec x) {
    __m256 y = _mm512_cvtpd_ps(x);
    _mm_stream_ps(p, _mm256_castps256_ps128(y));
    _mm_stream_ps(p + 4, _mm256_extractf128_ps(y, 1));
}
static inline void vec_stream_end(void) { _mm_sfence(); }
static inline vec vec_add(vec a, vec b) { return _mm512_add_pd(a, b); }
static inline vec vec_sub(vec a, vec b) { return _mm512_sub_pd(a, b); }
static inline vec vec_min(vec a, vec b) { return _mm512_min_pd(a, b); }
static inline vec vec_max(vec a, vec b) { return _mm512_max_pd(a, b); }
static inline mask vec_gt(vec a, vec b) { return _mm512_cmp_pd_mask(a, b, _CMP_GT_OQ); }
static inline mask vec_ge(vec a, vec b) { return _mm512_cmp_pd_mask(a, b, _CMP_GE_OQ); }
static inline mask mask_andnot(mask no, mask yes) { return (mask)(~no & yes); }
static inline unsigned mask_bits(mask m) { return m; }
static inline vec vec_add_where(vec acc, mask m, vec x) { return _mm512_mask_add_pd(acc, m, acc, x); }
static inline unsigned mask_count(mask m) { return (unsigned)_mm_popcnt_u32(m); }

/* Writes the chosen lanes side by side; touches all eight slots at p. */
static inline unsigned vec_compress(double *p, mask m, vec x) {
    _mm512_storeu_pd(p, _mm512_maskz_compress_pd(m, x));
    return mask_count(m);
}

#elif defined(TAUFPL_AVX2)
#include <immintrin.h>

typedef struct { __m256d lo, hi; } vec;
typedef vec mask;

#define PAIRWISE(name, op) \
    static inline vec name(vec a, vec b) { vec r = {op(a.lo, b.lo), op(a.hi, b.hi)}; return r; }
#define CMP_GT(a, b) _mm256_cmp_pd(a, b, _CMP_GT_OQ)
#define CMP_GE(a, b) _mm256_cmp_pd(a, b, _CMP_GE_OQ)

static inline vec vec_set1(double x) { vec r = {_mm256_set1_pd(x), _mm256_set1_pd(x)}; return r; }
static inline vec vec_load_f64(const double *p) { vec r = {_mm256_loadu_pd(p), _mm256_loadu_pd(p + 4)}; return r; }
static inline vec vec_load_f32(const float *p) {
    vec r = {_mm256_cvtps_pd(_mm_loadu_ps(p)), _mm256_cvtps_pd(_mm_loadu_ps(p + 4))};
    return r;
}
static inline void vec_store_f64(double *p, vec x) { _mm256_storeu_pd(p, x.lo); _mm256_storeu_pd(p + 4, x.hi); }
static inline void vec_store_f32(float *p, vec x) {
    _mm_storeu_ps(p, _mm256_cvtpd_ps(x.lo));
    _mm_storeu_ps(p + 4, _mm256_cvtpd_ps(x.hi));
}
static inline void vec_stream_f64(double *p, vec x) {
    _mm_stream_pd(p, _mm256_castpd256_pd128(x.lo));
    _mm_stream_pd(p + 2, _mm256_extractf128_pd(x.lo, 1));
    _mm_stream_pd(p + 4, _mm256_castpd256_pd128(x.hi));
    _mm_stream_pd(p + 6, _mm256_extractf128_pd(x.hi, 1));
}
static inline void vec_stream_f32(float *p, vec x) {
    _mm_stream_ps(p, _mm256_cvtpd_ps(x.lo));
    _mm_stream_ps(p + 4, _mm256_cvtpd_ps(x.hi));
}
static inline void vec_stream_end(void) { _mm_sfence(); }
PAIRWISE(vec_add, _mm256_add_pd)
PAIRWISE(vec_sub, _mm256_sub_pd)
PAIRWISE(vec_min, _mm256_min_pd)
PAIRWISE(vec_max, _mm256_max_pd)
PAIRWISE(vec_gt, CMP_GT)
PAIRWISE(vec_ge, CMP_GE)
PAIRWISE(mask_andnot, _mm256_andnot_pd)
static inline unsigned mask_bits(mask m) {
    return (unsigned)_mm256_movemask_pd(m.lo) | ((unsigned)_mm256_movemask_pd(m.hi) << 4);
}
static inline vec vec_add_where(vec acc, mask m, vec x) {
    vec chosen = {_mm256_and_pd(m.lo, x.lo), _mm256_and_pd(m.hi, x.hi)};
    return vec_add(acc, chosen);
}
static inline unsigned mask_count(mask m) { return (unsigned)_mm_popcnt_u32(mask_bits(m)); }

/* AVX2 has no compress instruction: a table of permutations does half a vector at a time. */
#define PAIR(i) 2 * (i), 2 * (i) + 1
static const int32_t compress_order[16][8] = {
    {PAIR(0), PAIR(0), PAIR(0), PAIR(0)}, {PAIR(0), PAIR(0), PAIR(0), PAIR(0)},
    {PAIR(1), PAIR(0), PAIR(0), PAIR(0)}, {PAIR(0), PAIR(1), PAIR(0), PAIR(0)},
    {PAIR(2), PAIR(0), PAIR(0), PAIR(0)}, {PAIR(0), PAIR(2), PAIR(0), PAIR(0)},
    {PAIR(1), PAIR(2), PAIR(0), PAIR(0)}, {PAIR(0), PAIR(1), PAIR(2), PAIR(0)},
    {PAIR(3), PAIR(0), PAIR(0), PAIR(0)}, {PAIR(0), PAIR(3), PAIR(0), PAIR(0)},
    {PAIR(1), PAIR(3), PAIR(0), PAIR(0)}, {PAIR(0), PAIR(1), PAIR(3), PAIR(0)},
    {PAIR(2), PAIR(3), PAIR(0), PAIR(0)}, {PAIR(0), PAIR(2), PAIR(3), PAIR(0)},
    {PAIR(1), PAIR(2), PAIR(3), PAIR(0)}, {PAIR(0), PAIR(1), PAIR(2), PAIR(3)},
};

static inline unsigned compress_half(double *p, __m256d m, __m256d x) {
    unsigned bits = (unsigned)_mm256_movemask_pd(m);
    __m256i order = _mm256_loadu_si256((const __m256i *)compress_order[bits]);
    _mm256_storeu_pd(p, _mm256_castps_pd(_mm256_permutevar8x32_ps(_mm256_castpd_ps(x), order)));
    return (unsigned)_mm_popcnt_u32(bits);
}

static inline unsigned vec_compress(double *p, mask m, vec x) {
    unsigned first = compress_half(p, m.lo, x.lo);
    return first + compress_half(p + first, m.hi, x.hi);
}

#elif defined(__GNUC__) /* gcc and clang on any machine: four pairs, which SSE2 and NEON both have in hardware */

typedef double pair __attribute__((vector_size(16)));
typedef int64_t pair_mask __attribute__((vector_size(16))); /* -1 or 0 */
typedef struct { pair part[4]; } vec;
typedef struct { pair_mask part[4]; } mask;

#define EACH_PART for (int i = 0; i < 4; i++)
#define PARTWISE(name, result, expression) \
    static inline result name(vec a, vec b) { \
        result r; \
        EACH_PART { pair x = a.part[i], y = b.part[i]; r.part[i] = (expression); } \
        return r; \
    }
#define CHOOSE(m, a, b) (pair)(((m) & (pair_mask)(a)) | (~(m) & (pair_mask)(b)))

static inline vec vec_set1(double x) { vec r; EACH_PART r.part[i] = (pair){x, x}; return r; }
static inline vec vec_load_f64(const double *p) { vec r; memcpy(&r, p, sizeof r); return r; }
static inline vec vec_load_f32(const float *p) {
    vec r; EACH_PART r.part[i] = (pair){(double)p[2 * i], (double)p[2 * i + 1]}; return r;
}
static inline void vec_store_f64(double *p, vec x) { memcpy(p, &x, sizeof x); }
static inline void vec_store_f32(float *p, vec x) {
    EACH_PART { p[2 * i] = (float)x.part[i][0]; p[2 * i + 1] = (float)x.part[i][1]; }
}
PARTWISE(vec_add, vec, x + y)
PARTWISE(vec_sub, vec, x - y)
PARTWISE(vec_min, vec, CHOOSE(x < y, x, y))
PARTWISE(vec_max, vec, CHOOSE(x > y, x, y))
PARTWISE(vec_gt, mask, x > y)
PARTWISE(vec_ge, mask, x >= y)
static inline mask mask_andnot(mask no, mask yes) {
    mask r; EACH_PART r.part[i] = ~no.part[i] & yes.part[i]; return r;
}
static inline vec vec_add_where(vec acc, mask m, vec x) {
    vec r; EACH_PART r.part[i] = acc.part[i] + (pair)(m.part[i] & (pair_mask)x.part[i]); return r;
}
static inline unsigned mask_bits(mask m) {
    unsigned r = 0;
    EACH_PART r |= (unsigned)(m.part[i][0] & 1) << 2 * i | (unsigned)(m.part[i][1] & 1) << (2 * i + 1);
    return r;
}
static inline unsigned mask_count(mask m) {
    pair_mask sum = (m.part[0] + m.part[1]) + (m.part[2] + m.part[3]);
    return (unsigned)-(sum[0] + sum[1]);
}
static inline unsigned vec_compress(double *p, mask m, vec x) {
    pair_mask any = (m.part[0] | m.part[1]) | (m.part[2] | m.part[3]);
    unsigned count = 0;
    if (!(any[0] | any[1])) return 0; /* few lanes are chosen, most vectors have none */
    EACH_PART {
        p[count] = x.part[i][0];
        count += (unsigned)(m.part[i][0] & 1);
        p[count] = x.part[i][1];
        count += (unsigned)(m.part[i][1] & 1);
    }
    return count;
}

#else /* plain C */

typedef struct { double lane[LANES]; } vec;
typedef struct { unsigned char lane[LANES]; } mask; /* 1 or 0 */

#define EACH_LANE for (int l = 0; l < LANES; l++)
#define LANEWISE(name, result, expression) \
    static inline result name(vec a, vec b) { result r; EACH_LANE r.lane[l] = (expression); return r; }

static inline vec vec_set1(double x) { vec r; EACH_LANE r.lane[l] = x; return r; }
static inline vec vec_load_f64(const double *p) { vec r; EACH_LANE r.lane[l] = p[l]; return r; }
static inline vec vec_load_f32(const float *p) { vec r; EACH_LANE r.lane[l] = (double)p[l]; return r; }
static inline void vec_store_f64(double *p, vec x) { EACH_LANE p[l] = x.lane[l]; }
static inline void vec_store_f32(float *p, vec x) { EACH_LANE p[l] = (float)x.lane[l]; }
LANEWISE(vec_add, vec, a.lane[l] + b.lane[l])
LANEWISE(vec_sub, vec, a.lane[l] - b.lane[l])
LANEWISE(vec_min, vec, a.lane[l] < b.lane[l] ? a.lane[l] : b.lane[l])
LANEWISE(vec_max, vec, a.lane[l] > b.lane[l] ? a.lane[l] : b.lane[l])
LANEWISE(vec_gt, mask, a.lane[l] > b.lane[l])
LANEWISE(vec_ge, mask, a.lane[l] >= b.lane[l])
static inline mask mask_andnot(mask no, mask yes) {
    mask r; EACH_LANE r.lane[l] = yes.lane[l] & (unsigned char)!no.lane[l]; return r;
}
static inline unsigned mask_bits(mask m) { unsigned r = 0; EACH_LANE r |= (unsigned)m.lane[l] << l; return r; }
static inline vec vec_add_where(vec acc, mask m, vec x) {
    vec r; EACH_LANE r.lane[l] = acc.lane[l] + (m.lane[l] ? x.lane[l] : 0.0); return r;
}
static inline unsigned mask_count(mask m) { unsigned r = 0; EACH_LANE r += m.lane[l]; return r; }
static inline unsigned vec_compress(double *p, mask m, vec x) {
    unsigned count = 0;
    EACH_LANE { p[count] = x.lane[l]; count += m.lane[l]; }
    return count;
}

#endif

#if !defined(TAUFPL_AVX512) && !defined(TAUFPL_AVX2)
static inline void vec_stream_f64(double *p, vec x) { vec_store_f64(p, x); }
static inline void vec_stream_f32(float *p, vec x) { vec_store_f32(p, x); }
static inline void vec_stream_end(void) {}
#endif

static inline double vec_sum(vec x) {
    double lane[LANES];
    vec_store_f64(lane, x);
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

/* A running sum with its rounding error (Knuth's two-sum), lane by lane, fed with one partial sum per block. */
typedef struct { vec high, low; } exact_sum;

static inline exact_sum exact_zero(void) {
    exact_sum zero = {vec_set1(0.0), vec_set1(0.0)};
    return zero;
}

static inline void exact_add(exact_sum *sum, vec x) {
    vec high = vec_add(sum->high, x), part = vec_sub(high, sum->high);
    vec lost = vec_add(vec_sub(sum->high, vec_sub(high, part)), vec_sub(x, part));
    sum->low = vec_add(sum->low, lost);
    sum->high = high;
}

static inline double exact_total(exact_sum sum) { return vec_sum(sum.high) + vec_sum(sum.low); }

#endif
