"""Compiled kernels: buffers in, buffers out. They check no arguments and word no errors."""
