"""One process: held by a pidfd, named for good."""
