/* The functions of dense_table for one type: the file that includes this one defines REAL and NAMED(name).
 *
 * Every sum has a fixed order (eight lanes in a dot product, rows four at a time in a sum of rows), so that the
 * width of the machine's vectors does not show in the result.
 */

#define START(i) ((const REAL *)x + (rows ? rows[i] : (i)) * stride)

static void NAMED(dense_dot)(const void *x, ptrdiff_t stride, const ptrdiff_t *rows, ptrdiff_t first, ptrdiff_t last,
                             ptrdiff_t d, const double *w, double *out) {
    ptrdiff_t i = first, whole = d - d % LANES;
    for (; i + 4 <= last; i += 4) { /* four rows share each load of w */
        const REAL *x0 = START(i), *x1 = START(i + 1), *x2 = START(i + 2), *x3 = START(i + 3);
        lanes a0 = {0}, a1 = {0}, a2 = {0}, a3 = {0};
        for (ptrdiff_t j = 0; j < whole; j += LANES) {
            ADD_PRODUCT(a0, x0 + j, w + j);
            ADD_PRODUCT(a1, x1 + j, w + j);
            ADD_PRODUCT(a2, x2 + j, w + j);
            ADD_PRODUCT(a3, x3 + j, w + j);
        }
        double s0 = FOLD(a0), s1 = FOLD(a1), s2 = FOLD(a2), s3 = FOLD(a3);
        for (ptrdiff_t j = whole; j < d; j++) {
            s0 += x0[j] * w[j];
            s1 += x1[j] * w[j];
            s2 += x2[j] * w[j];
            s3 += x3[j] * w[j];
        }
        out[i] = s0, out[i + 1] = s1, out[i + 2] = s2, out[i + 3] = s3;
    }
    for (; i < last; i++) {
        const REAL *x0 = START(i);
        lanes a0 = {0};
        for (ptrdiff_t j = 0; j < whole; j += LANES) ADD_PRODUCT(a0, x0 + j, w + j);
        double s0 = FOLD(a0);
        for (ptrdiff_t j = whole; j < d; j++) s0 += x0[j] * w[j];
        out[i] = s0;
    }
}

static void NAMED(dense_add)(const void *x, ptrdiff_t stride, const ptrdiff_t *rows, ptrdiff_t first, ptrdiff_t last,
                             ptrdiff_t d, const double *v, double *restrict out) {
    const REAL *row[4];
    double c[4];
    int held = 0;
    for (ptrdiff_t i = first; i < last; i++) {
        if (v[i] == 0.0) continue; /* dual vectors are mostly zero */
        row[held] = START(i);
        c[held++] = v[i];
        if (held < 4) continue;
        const REAL *x0 = row[0], *x1 = row[1], *x2 = row[2], *x3 = row[3];
        double c0 = c[0], c1 = c[1], c2 = c[2], c3 = c[3];
        for (ptrdiff_t j = 0; j < d; j++) out[j] += (c0 * x0[j] + c1 * x1[j]) + (c2 * x2[j] + c3 * x3[j]);
        held = 0;
    }
    for (int h = 0; h < held; h++)
        for (ptrdiff_t j = 0; j < d; j++) out[j] += c[h] * row[h][j];
}

static void NAMED(dense_gram)(const void *x, ptrdiff_t stride, const ptrdiff_t *rows, ptrdiff_t n, ptrdiff_t d,
                              const double *weights, const double *shift, ptrdiff_t low, ptrdiff_t high,
                              double *scratch, double *out) {
    ptrdiff_t reach = high + LANES < d ? high + LANES : d;
    for (ptrdiff_t i = 0; i < n; i += GRAM_ROWS) {
        double c[GRAM_ROWS] = {0};
        for (int r = 0; r < GRAM_ROWS; r++) {
            double *restrict z = scratch + r * d;
            if (i + r < n) {
                const REAL *row = START(i + r);
                c[r] = weights[i + r];
                for (ptrdiff_t j = 0; j < reach; j++) z[j] = row[j] - shift[j];
            } else {
                for (ptrdiff_t j = 0; j < reach; j++) z[j] = 0.0;
            }
        }
        add_outer(scratch, c, d, low, high, out);
    }
}

#undef START
