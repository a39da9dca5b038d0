"""Not shipped: makers of data sets, the demonstration, comparisons."""
