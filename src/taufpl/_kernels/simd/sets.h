/* The instruction sets that loops over vectors are built for.
 *
 * A file of such loops is compiled once for each set, with TAUFPL_SET one of plain, avx2 and avx512 (meson.build). Every
 * build does the same additions in the same order, so that no result depends on the set. simd.pxi picks one at run time.
 */
#ifndef TAUFPL_SETS_H
#define TAUFPL_SETS_H

/* Whether a set was built, and this processor has it. 0: plain, 1: avx2, 2: avx512. */
static inline int set_runs(int set) {
#ifdef TAUFPL_X86
    if (set == 2)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("popcnt");
    if (set == 1) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt");
#endif
    return set == 0;
}

/* In the header of a family of loops: `family_loops(set)` is the table of one set, a `family_table`. */
#ifdef TAUFPL_X86
#define TABLES_OF(family)                                                                                    \
    extern const family##_table family##_plain, family##_avx2, family##_avx512;                              \
    static inline const family##_table *family##_loops(int set) {                                            \
        return set == 2 ? &family##_avx512 : set == 1 ? &family##_avx2 : &family##_plain;                    \
    }
#else
#define TABLES_OF(family)                                                                                    \
    extern const family##_table family##_plain;                                                              \
    static inline const family##_table *family##_loops(int set) { return (void)set, &family##_plain; }
#endif

/* In the file of the loops: the table of the set that it is compiled for. */
#define JOIN_NAMES(family, set) family##_##set
#define NAME_OF_TABLE(family, set) JOIN_NAMES(family, set)
#define TABLE_OF_THIS_SET(family) const family##_table NAME_OF_TABLE(family, TAUFPL_SET)

#endif
