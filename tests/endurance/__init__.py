"""Runs that take minutes, by `make endurance`: what grows only slowly shows in them."""
