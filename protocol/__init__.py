"""The protocol of a supervised step as models for Spin, and what has to hold of them. `make model`; README.md says more."""
