"""`spurd serve`: the parts of the agent put together on one event loop, what it does again and again there, and how it ends."""
