"""What spurproc costs, beside bare C and beside what Python programs use today. The targets are in targets.py."""
