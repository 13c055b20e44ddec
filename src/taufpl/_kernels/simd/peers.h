/* Loops of the peer projections (_projection_peers.pyx). */
#ifndef TAUFPL_PEERS_H
#define TAUFPL_PEERS_H

#include "sets.h"

#include <stddef.h>

/* Off: one entry at a time, as the peers' authors wrote it; for a comparison on their terms. */
extern int peers_vector_loops;

typedef struct {
    void (*excess)(const double *x, ptrdiff_t n, double t, double *excess, double *count);
    void (*excess_two)(const double *x, ptrdiff_t n, const double *t, double *excess, double *count);
    ptrdiff_t (*keep)(const double *x, ptrdiff_t n, double low, double high, double *kept);
    int (*any_pair)(const double *x, const double *sums, double k, double tol, int u, int first, int last);
} peers_table;

TABLES_OF(peers)

#endif
