"""Rows that stay where they are: on a device, in files, on the workers of a cluster."""
