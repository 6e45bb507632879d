"""Process supervision for Linux that does not lie."""
