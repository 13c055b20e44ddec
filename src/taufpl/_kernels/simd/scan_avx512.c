/* The passes over vectors with AVX-512. */
#define TAUFPL_AVX512
#include "scan_table.h"

SCAN_TABLE(scan_avx512, "avx512");
