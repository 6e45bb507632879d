"""Deliberate faults in the core, one at a time, that the suites must notice."""
