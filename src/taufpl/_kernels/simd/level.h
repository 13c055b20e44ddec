/* The one equation behind every set of docs/projection.md: Psi(L) = 0, by monotone Newton. */
#ifndef TAUFPL_LEVEL_H
#define TAUFPL_LEVEL_H

#include "scan.h"

/* The excess of one vector as a function of its threshold. All numbers but `origin` are relative to `origin`. */
typedef struct {
    double origin;
    double *y; /* undecided entries; pruned and permuted while solving */
    ptrdiff_t n;
    double count, excess;            /* of the decided entries */
    double low, high;                /* count and excess are right for thresholds in between */
    int low_is_proven, high_is_proven; /* the root is known to lie on this side of low or high */
    double at, n_above, over;        /* the last evaluation: threshold (NaN before the first), count, excess */
} tail;

typedef enum { TOPK_SIMPLEX, TOPK_CONE, CAPPED_SIMPLEX } set_kind;

typedef enum {
    SOLVED,        /* thresholds stand in alpha.at, lower.at, upper.at */
    SOLVED_FLAT,   /* likewise, but the k largest entries of beta share the total evenly */
    ZERO,          /* the answer is zero */
    INFEASIBLE,    /* capped simplex: fewer finite entries than total / cap */
    OUTSIDE,       /* a threshold lies outside its interval: see outside, side */
    NEEDS_JOIN,    /* the minimum of T is wanted: lower and upper must cover one common interval */
    BELOW_MINIMUM  /* internal: no point has this level */
} level_status;

typedef struct {
    const scan_table *scan;
    set_kind kind;
    double k, weight, total;
    double ratio;              /* scales the sum over alpha (a sample may hold another share of it than of beta) */
    tail alpha, lower, upper;  /* thresholds lambda / weight, mu, delta */
    int joined;                /* lower and upper hold the same entries relative to the same origin */
    int rough;                 /* a sample corrected by excesses that are known: its two ends may disagree about T */
    double gap;                /* upper.origin - lower.origin */
    double residue;            /* both tails of beta are clipped from above; this is what was cut off, in all */
    double balance;            /* -(lower.origin + weight * alpha.origin), to twice the precision */
    tail *outside;             /* OUT with OUTSIDE: which tail, on which side (-1, +1) */
    int side;
    double solution;           /* OUT: the common total C */
    double n_free;             /* OUT: entries of beta strictly between 0 and C / k */
} level_problem;

level_status level_solve(level_problem *p);

/* The entry of that rank, 0 for the largest. Permutes y so that the larger entries stand before it. */
double select_largest(double *y, ptrdiff_t n, ptrdiff_t rank);

#endif
