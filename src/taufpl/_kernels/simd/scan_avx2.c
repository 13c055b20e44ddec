/* The passes over vectors with AVX2. */
#define TAUFPL_AVX2
#include "scan_table.h"

SCAN_TABLE(scan_avx2, "avx2");
