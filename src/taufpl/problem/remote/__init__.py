"""The ranking problem over rows in blocks."""
