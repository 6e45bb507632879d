"""The agent's socket: what is said on it, who may say it, and that nobody who speaks disturbs anybody else."""
