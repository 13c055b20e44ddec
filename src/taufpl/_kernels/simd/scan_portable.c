#include "scan_table.h"

SCAN_TABLE(scan_portable, "portable");
