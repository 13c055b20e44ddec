"""Published projections on the top-k simplex and the top-k cone, to compare `taufpl.projection` with.

`ibis`, `bisection` and the search of `ptkc` are compiled, with gcc on x86-64 Linux for the same instruction sets.
The others lean on NumPy's sort. Entries must be finite.
"""

from taufpl.paper import bisection, ibis, ptkc, sort_based, sort_based_cone

__all__ = ["bisection", "ibis", "ptkc", "sort_based", "sort_based_cone"]
