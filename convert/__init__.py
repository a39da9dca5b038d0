"""A data set in, a laid-out database and its sidecar index out."""
