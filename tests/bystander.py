"""A process that nobody has any business with: what it feels of all that happens around it."""

from __future__ import annotations

import signal
from pathlib import Path

import prctl

from tests.crash.child import Child


class Bystander:
    """Every signal that can be is kept waiting, so that one that came can be seen. Ends with the run, however that does."""

    def __init__(self) -> None:
        self._child = Child(_stand_by)
        self.pid = self._child.pid

    def felt(self) -> list[str]:
        """What has been done to it; nothing, as a rule."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="utf-8")
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        pending = int(fields["SigPnd"], 16) | int(fields["ShdPnd"], 16)
        return [] if fields["State"].startswith("S") and not pending else [f"the bystander: {fields['State']}, {pending:#x}"]

    def close(self) -> None:
        """End it, and reap it."""
        self._child.close()


def _stand_by() -> None:
    prctl.set_pdeathsig(signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
