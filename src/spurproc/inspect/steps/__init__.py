"""Supervised steps: what a state folder holds, how each step stands, and what is wrong with it."""
