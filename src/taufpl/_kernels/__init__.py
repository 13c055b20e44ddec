"""Compiled kernels: buffers in, buffers out, no policy."""
