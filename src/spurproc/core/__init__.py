"""Mechanism: one kernel idea a module. No policy, no logging, no retry."""
