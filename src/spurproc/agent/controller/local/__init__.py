"""The controller that is built in: a durable queue on one machine, strictly first in, first out, and its history."""
