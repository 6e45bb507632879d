"""Files that must be true after a crash, and the lock that says who may write them."""
