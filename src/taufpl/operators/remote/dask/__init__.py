"""Rows of Dask collections, on the workers of a cluster or in this process."""
