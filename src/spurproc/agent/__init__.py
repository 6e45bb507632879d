"""The node agent: jobs, their resources, what is still owed for them, and how it may be restarted at any time."""
