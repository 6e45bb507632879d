"""What has to outlive the agent: a database on its thread, and the rows of the agent's own."""
