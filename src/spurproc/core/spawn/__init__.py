"""Start a program: plan it, clone, know that it runs or why not."""
