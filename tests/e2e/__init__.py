"""The real programs, crashes and all."""
