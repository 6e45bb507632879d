"""What becomes of a step when whoever takes part in it is killed, or fails, at each of its acts."""
