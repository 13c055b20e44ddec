/* The passes over vectors in plain C, SSE2 or NEON. */
#include "scan_table.h"

SCAN_TABLE(scan_portable, "portable");
