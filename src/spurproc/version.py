"""The release: what a host and the programs that speak to it are told apart by."""

VERSION = "0.1.0.dev0"
