/* Products with a block of dense rows, each row contiguous; sums are double, whatever the type of the data.
 *
 * Row i of a block starts at x + r * stride, where r is rows[i], or i where rows is NULL.
 */
#ifndef TAUFPL_DENSE_H
#define TAUFPL_DENSE_H

#include <stddef.h>

/* out[i] = row_i . w, for i in [first, last) */
void dense_dot_f32(const float *x, ptrdiff_t stride, const ptrdiff_t *rows, ptrdiff_t first, ptrdiff_t last,
                   ptrdiff_t d, const double *w, double *out);
void dense_dot_f64(const double *x, ptrdiff_t stride, const ptrdiff_t *rows, ptrdiff_t first, ptrdiff_t last,
                   ptrdiff_t d, const double *w, double *out);

/* out[j] += sum over i in [first, last) of v[i] row_i[j], for j in [0, d) */
void dense_add_f32(const float *x, ptrdiff_t stride, const ptrdiff_t *rows, ptrdiff_t first, ptrdiff_t last,
                   ptrdiff_t d, const double *v, double *out);
void dense_add_f64(const double *x, ptrdiff_t stride, const ptrdiff_t *rows, ptrdiff_t first, ptrdiff_t last,
                   ptrdiff_t d, const double *v, double *out);

/* Lines [low, high) of the lower triangle of out (d x d) += sum over i in [0, n) of weights[i] z_i z_i', where
 * z_i = row_i - shift. What it leaves above the diagonal is not defined. scratch has room for GRAM_ROWS d values. */
#define GRAM_ROWS 8
void dense_gram_f32(const float *x, ptrdiff_t stride, const ptrdiff_t *rows, ptrdiff_t n, ptrdiff_t d,
                    const double *weights, const double *shift, ptrdiff_t low, ptrdiff_t high, double *scratch,
                    double *out);
void dense_gram_f64(const double *x, ptrdiff_t stride, const ptrdiff_t *rows, ptrdiff_t n, ptrdiff_t d,
                    const double *weights, const double *shift, ptrdiff_t low, ptrdiff_t high, double *scratch,
                    double *out);

#endif
