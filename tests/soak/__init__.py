"""A random history, by a seed: jobs of all kinds on a node to which anything may happen; then all promises are looked at."""
