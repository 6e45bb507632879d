"""What the agent is on this machine: its state folder, that it owns it, and what it tells others of itself."""
