"""One primitive on real processes and real cgroups."""
