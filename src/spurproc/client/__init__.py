"""Supervised steps from Python: launch one, adopt those that are there, and speak to their supervisors. No agent is needed."""
