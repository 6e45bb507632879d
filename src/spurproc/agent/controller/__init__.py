"""Whoever gives work to this node and wants to know what became of it: one interface, and one that is built in."""
