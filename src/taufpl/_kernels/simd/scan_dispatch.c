/* The fastest passes over vectors that this processor has. */
#include "scan.h"

#include <string.h>

extern const scan_table scan_portable;
#ifdef TAUFPL_X86
extern const scan_table scan_avx2, scan_avx512;

static int can_run_avx512(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("popcnt");
}

static int can_run_avx2(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt"); }
#endif

const scan_table *scan_named(const char *name) {
    if (!strcmp(name, "portable")) return &scan_portable;
#ifdef TAUFPL_X86
    if (!strcmp(name, "avx512") && can_run_avx512()) return &scan_avx512;
    if (!strcmp(name, "avx2") && can_run_avx2()) return &scan_avx2;
#endif
    return NULL;
}

const scan_table *scan_best(void) {
    const scan_table *best = scan_named("avx512");
    if (!best) best = scan_named("avx2");
    return best ? best : &scan_portable;
}
