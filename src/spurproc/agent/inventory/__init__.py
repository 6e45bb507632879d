"""What a node has: readers of the kernel's files, and what is made of two readings. One is whole or Failed, never smaller."""
