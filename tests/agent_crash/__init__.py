"""The crash matrix of the agent: at each of its durable steps it is killed, alone or with who runs its steps."""
