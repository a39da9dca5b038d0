"""Comparing lmdbio with its peers: the same bytes stored and read by each, side by side in one run."""
