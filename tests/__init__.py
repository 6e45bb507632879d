"""The test suites and the small harness they share."""
