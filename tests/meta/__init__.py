"""Guards of the repository itself: exports, layers, packaging, the harness."""
