/* Products with a block of dense rows, each row contiguous; sums are double, whatever the type of the data.
 *
 * Row i of a block starts at x + r * stride, where r is rows[i], or i where rows is NULL.
 */
#ifndef TAUFPL_DENSE_H
#define TAUFPL_DENSE_H

#include "sets.h"

#include <stddef.h>

typedef void dense_product(const void *x, ptrdiff_t stride, const ptrdiff_t *rows, ptrdiff_t first, ptrdiff_t last,
                           ptrdiff_t d, const double *in, double *out);
typedef void dense_square(const void *x, ptrdiff_t stride, const ptrdiff_t *rows, ptrdiff_t n, ptrdiff_t d,
                          const double *weights, const double *shift, ptrdiff_t low, ptrdiff_t high, double *scratch,
                          double *out);
#define GRAM_ROWS 8

/* Index 0: float64, 1: float32. */
typedef struct {
    dense_product *dot[2]; /* out[i] = row_i . in, for i in [first, last) */
    dense_product *add[2]; /* out[j] += sum over i in [first, last) of in[i] row_i[j], for j in [0, d) */
    /* Lines [low, high) of the lower triangle of out (d x d) += sum over i in [0, n) of weights[i] z_i z_i', where
     * z_i = row_i - shift. What it leaves above the diagonal is not defined. scratch has room for GRAM_ROWS d values. */
    dense_square *gram[2];
} dense_table;

TABLES_OF(dense)

#endif
