"""One cgroup v2 folder: held, read, signalled, removed; and where ours live."""
