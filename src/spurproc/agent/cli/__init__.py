"""What is typed: `spurd submit` and its like. They talk to the agent's socket, and to nothing else of it."""
