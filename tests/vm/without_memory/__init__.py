"""On a kernel booted with cgroup_disable=memory."""
