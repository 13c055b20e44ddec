"""Projections of vectors that lie in blocks: by rounds of small messages, or on the device that holds them."""
