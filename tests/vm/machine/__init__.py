"""With systemd as PID 1, all controllers, and a machine whose limits may be raised."""
