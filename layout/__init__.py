"""The formats: LMDB pages, the sidecar index, partitions and page order, the Datum codec. No policy, no printing."""
