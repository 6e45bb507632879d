"""What is submitted, and what becomes of it before it is launched: its script, its folders, its environment, its step."""
