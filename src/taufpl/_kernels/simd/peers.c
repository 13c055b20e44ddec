/* Loops of the peer projections, for the instruction set that the file is compiled for (sets.h). */
#include "peers.h"

#include <math.h>
#include <string.h>
#ifdef TAUFPL_AVX512
#include <immintrin.h>
#endif

/* Lanes: GCC's and Clang's vectors where there are any, else one number at a time. */
#if defined(__GNUC__)
typedef double peers_vec __attribute__((vector_size(64)));
typedef long long peers_int __attribute__((vector_size(64)));
#define PEERS_WHERE(m, d) ((peers_vec)((peers_int)(d) & (m)))
#define PEERS_TEST(comparison) ((peers_int)(comparison))
#else
typedef double peers_vec;
typedef long long peers_int;
#define PEERS_WHERE(m, d) ((m) ? (d) : 0.0)
#define PEERS_TEST(comparison) (-(peers_int)(comparison))
#endif
#define PEERS_LANES ((ptrdiff_t)(sizeof(peers_vec) / sizeof(double)))
#define PEERS_LOAD(v, p) memcpy(&(v), p, sizeof(v))
#define PEERS_ADD(d, sum, above) do { \
    peers_int m = PEERS_TEST((d) > 0.0); \
    (sum) += PEERS_WHERE(m, d); \
    (above) -= m; \
} while (0)

static double peers_total(const void *sum) {
    double lane[sizeof(peers_vec) / sizeof(double)], total = 0.0;
    memcpy(lane, sum, sizeof lane);
    for (ptrdiff_t l = 0; l < PEERS_LANES; l++) total += lane[l];
    return total;
}

static double peers_count(const void *above) {
    long long lane[sizeof(peers_int) / sizeof(long long)], total = 0;
    memcpy(lane, above, sizeof lane);
    for (ptrdiff_t l = 0; l < PEERS_LANES; l++) total += lane[l];
    return (double)total;
}

/* The same for the entries that do not fill a vector. */
static void peers_excess_rest(const double *x, ptrdiff_t n, double t, double *excess, double *count) {
    for (ptrdiff_t i = 0; i < n; i++)
        if (x[i] > t) {
            *excess += x[i] - t;
            *count += 1.0;
        }
}

/* IN x, n, t. OUT excess = sum [x - t]_+, count = #{x > t}. */
static void peers_excess(const double *x, ptrdiff_t n, double t, double *excess, double *count) {
    peers_vec even = {0}, odd = {0}, a, b;
    peers_int n_even = {0}, n_odd = {0};
    ptrdiff_t i = 0;
    for (; peers_vector_loops && i + 2 * PEERS_LANES <= n; i += 2 * PEERS_LANES) {
        PEERS_LOAD(a, x + i);
        PEERS_LOAD(b, x + i + PEERS_LANES);
        a -= t;
        b -= t;
        PEERS_ADD(a, even, n_even);
        PEERS_ADD(b, odd, n_odd);
    }
    even += odd;
    n_even += n_odd;
    *excess = peers_total(&even);
    *count = peers_count(&n_even);
    peers_excess_rest(x + i, n - i, t, excess, count);
}

/* IN x, n, t[2]. OUT excess[2], count[2]: two thresholds in one pass. */
static void peers_excess_two(const double *x, ptrdiff_t n, const double *t,
                             double *excess, double *count) {
    peers_vec s0 = {0}, s1 = {0}, a, b;
    peers_int n0 = {0}, n1 = {0};
    double t0 = t[0], t1 = t[1];
    ptrdiff_t i = 0;
    for (; peers_vector_loops && i + PEERS_LANES <= n; i += PEERS_LANES) {
        PEERS_LOAD(a, x + i);
        b = a - t1;
        a -= t0;
        PEERS_ADD(a, s0, n0);
        PEERS_ADD(b, s1, n1);
    }
    excess[0] = peers_total(&s0);
    excess[1] = peers_total(&s1);
    count[0] = peers_count(&n0);
    count[1] = peers_count(&n1);
    peers_excess_rest(x + i, n - i, t0, excess, count);
    peers_excess_rest(x + i, n - i, t1, excess + 1, count + 1);
}

/* peers_keep, eight entries at a time; returns how many it read, adds those kept to *n_kept. */
#ifdef TAUFPL_AVX512
static ptrdiff_t peers_keep_vectors(const double *x, ptrdiff_t n, double low, double high, double *kept,
                                    ptrdiff_t *n_kept) {
    const __m512d l = _mm512_set1_pd(low), h = _mm512_set1_pd(high);
    ptrdiff_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m512d v = _mm512_loadu_pd(x + i);
        __mmask8 m = _mm512_cmp_pd_mask(v, l, _CMP_GT_OQ) & _mm512_cmp_pd_mask(v, h, _CMP_LE_OQ);
        _mm512_storeu_pd(kept + *n_kept, _mm512_maskz_compress_pd(m, v));
        *n_kept += __builtin_popcount(m);
    }
    return i;
}
#endif

/* IN x, n, low, high. OUT kept: the entries in (low, high], side by side; may be x. Returns how many. */
static ptrdiff_t peers_keep(const double *x, ptrdiff_t n, double low, double high, double *kept) {
    ptrdiff_t i = 0, n_kept = 0;
#ifdef TAUFPL_AVX512
    if (peers_vector_loops) i = peers_keep_vectors(x, n, low, high, kept, &n_kept);
#endif
    for (; i < n; i++) {
        double v = x[i];
        kept[n_kept] = v;
        n_kept += (v > low) & (v <= high);
    }
    return n_kept;
}

/* IN x: sorted downward, then -inf; sums[i]: sum of the first i; u: how many are at the cap; tol: slack.
 * Returns whether, for some end in [first, last), entries u .. end - 1 are those between t and t + cap:
 *     t = (u S - (k - u) U) / D        cap = (M U + (k - u) S) / D
 * where U = sums[u], S = sums[end] - U, M = end - u, D = (k - u)^2 + M u. */
static int peers_any_pair(const double *x, const double *sums, double k, double tol,
                          int u, int first, int last) {
    const double room = k - u, capped = sums[u];
    const double below = u ? x[u - 1] + tol : HUGE_VAL, above = x[u] - tol;
    int any = 0;
    for (int end = first; end < last; end++) {
        double free = sums[end] - capped, n_free = (double)(end - u);
        double scale = 1.0 / (room * room + n_free * u);
        double t = (u * free - room * capped) * scale;
        double delta = t + (n_free * capped + room * free) * scale;
        any |= (delta >= above) & (delta <= below) & (t <= x[end - 1] + tol) & (t >= x[end] - tol);
    }
    return any;
}

TABLE_OF_THIS_SET(peers) = {peers_excess, peers_excess_two, peers_keep, peers_any_pair};
