/* Passes over vectors: filter, evaluate, prune, write. Buffers in, buffers out, no policy.
 *
 * The excess of a vector over a threshold t is sum [x - t]_+, its count the number of entries above t. A pass that
 * filters first replaces x by min(x, clip) and then splits by an interval [low, high]:
 *     x >= high          decided: counted, and x - anchor added up
 *     low <= x < high    undecided: x - origin kept
 *     x < low            forgotten
 * low and high are at least -DBL_MAX, so that -inf is always forgotten.
 */
#ifndef TAUFPL_SCAN_H
#define TAUFPL_SCAN_H

#include "sets.h"

#include <stddef.h>

typedef struct {
    double low, high, clip, origin, anchor; /* IN */
    double *kept;                           /* OUT: room for n + 8 */
    ptrdiff_t n_kept;                       /* OUT */
    double count, excess;                   /* OUT: of the decided entries */
} split;

typedef struct {
    /* One interval, one pass. Returns 1 if an entry is NaN or +inf. Index 0: float64, 1: float32. */
    int (*filter_one[2])(const void *x, ptrdiff_t n, split *s);
    /* Two intervals, one pass. */
    int (*filter_two[2])(const void *x, ptrdiff_t n, split *s, split *t);
    /* Count and excess of y over t; `ties` counts entries equal to t as above. */
    void (*evaluate)(const double *y, ptrdiff_t n, double t, int ties, double *count, double *excess);
    /* Keeps low <= y < high in place, adds y >= high to count and excess, returns how many were kept. */
    ptrdiff_t (*prune)(double *y, ptrdiff_t n, double low, double high, double *count, double *excess);
    /* out = [(x - origin) - offset]_+; returns its sum. */
    double (*write_excess[2])(const void *x, void *out, ptrdiff_t n, double origin, double offset);
    /* out = min([(x - origin) - offset]_+, cap); returns its sum, and how many lie strictly between 0 and cap. */
    double (*write_capped[2])(const void *x, void *out, ptrdiff_t n, double origin, double offset, double cap,
                              double *n_free);
} scan_table;

TABLES_OF(scan)

#endif
