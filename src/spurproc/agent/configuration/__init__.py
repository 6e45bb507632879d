"""The agent's settings: one table of them, read from flags, environment and a file."""
