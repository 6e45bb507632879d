"""The pages of the tutorial and of the how-tos, run block by block on real processes."""
