"""What only a whole machine of one's own can show: a guest with systemd, pure cgroup v2 and Linux 6.1. See `make test-vm`."""
