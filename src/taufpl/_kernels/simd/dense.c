/* Products with dense rows, for the instruction set that the file is compiled for (sets.h). */
#include "dense.h"

/* Eight sums side by side: parts of a dot product, or neighbours in a matrix. */
#define LANES 8
#if defined(__GNUC__)
typedef double lanes __attribute__((vector_size(64)));
typedef double lanes_f64 __attribute__((vector_size(64), aligned(8), may_alias));
typedef float lanes_f32 __attribute__((vector_size(32), aligned(4), may_alias));
#define INLINE static inline __attribute__((always_inline))
#define LANE(a, i) ((a)[i])
#define LOAD(a, p) (a) = *(const lanes_f64 *)(p)
#define STORE(p, a) *(lanes_f64 *)(p) = (a)
#define ADD_SCALED(a, c, p) (a) += (c) * *(const lanes_f64 *)(p)
#define ADD_PRODUCT(a, x, w) \
    (a) += __builtin_convertvector(*(const NAMED(lanes) *)(x), lanes) * *(const lanes_f64 *)(w)
#else
typedef struct { double lane[LANES]; } lanes;
#define INLINE static inline
#define EACH for (int l = 0; l < LANES; l++)
#define LANE(a, i) ((a).lane[i])
#define LOAD(a, p) EACH (a).lane[l] = (p)[l]
#define STORE(p, a) EACH (p)[l] = (a).lane[l]
#define ADD_SCALED(a, c, p) EACH (a).lane[l] += (c) * (p)[l]
#define ADD_PRODUCT(a, x, w) EACH (a).lane[l] += (x)[l] * (w)[l]
#endif
#define FOLD(a) \
    (((LANE(a, 0) + LANE(a, 4)) + (LANE(a, 2) + LANE(a, 6))) + ((LANE(a, 1) + LANE(a, 5)) + (LANE(a, 3) + LANE(a, 7))))

/* Lines [low, high) of out += sum over r of c[r] z_r z_r', each to its diagonal or somewhat beyond. */
INLINE void add_outer(const double *z, const double *c, ptrdiff_t d, ptrdiff_t low, ptrdiff_t high, double *out) {
    for (ptrdiff_t j = low; j < high; j += 2) { /* two lines share each load of z; the last may be its own pair */
        ptrdiff_t pair = j + 1 < high ? j + 1 : j, k = 0;
        double *line0 = out + j * d, *line1 = out + pair * d, c0[GRAM_ROWS], c1[GRAM_ROWS];
        for (int r = 0; r < GRAM_ROWS; r++) {
            c0[r] = c[r] * z[r * d + j];
            c1[r] = c[r] * z[r * d + pair];
        }
        for (; k <= pair && k + LANES <= d; k += LANES) {
            lanes a0, a1;
            LOAD(a0, line0 + k);
            LOAD(a1, line1 + k);
            for (int r = 0; r < GRAM_ROWS; r++) {
                ADD_SCALED(a0, c0[r], z + r * d + k);
                ADD_SCALED(a1, c1[r], z + r * d + k);
            }
            STORE(line0 + k, a0);
            STORE(line1 + k, a1);
        }
        for (; k <= pair; k++) {
            double s0 = line0[k], s1 = line1[k];
            for (int r = 0; r < GRAM_ROWS; r++) {
                s0 += c0[r] * z[r * d + k];
                s1 += c1[r] * z[r * d + k];
            }
            line0[k] = s0, line1[k] = s1;
        }
    }
}

#define REAL float
#define NAMED(name) name##_f32
#include "dense_impl.h"
#undef REAL
#undef NAMED

#define REAL double
#define NAMED(name) name##_f64
#include "dense_impl.h"

TABLE_OF_THIS_SET(dense) = {
    {dense_dot_f64, dense_dot_f32},
    {dense_add_f64, dense_add_f32},
    {dense_gram_f64, dense_gram_f32},
};
