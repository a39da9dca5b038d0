"""Extents in, batches out: records read by direct offsets, alone or by many ranks."""
