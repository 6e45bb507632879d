"""A command from beginning to proven end: `spurproc.run`."""
