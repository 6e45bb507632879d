"""A step that another host is the witness of, an older release's: nothing is concluded here while that lives."""

from __future__ import annotations

import fcntl
from collections.abc import Callable

from spurproc.core.process.pidfd import Pidfd
from spurproc.proto.step_folder import StepFolder
from spurproc.stepd.loop import Loop

__all__ = ["Elsewhere"]

_CHANGES = fcntl.DN_MODIFY | fcntl.DN_CREATE | fcntl.DN_RENAME | fcntl.DN_DELETE | fcntl.DN_MULTISHOT


class Elsewhere:
    """Owns the step's folder and the hold on its host. `on_host_gone` is called once, with itself.

    Each change in the folder makes SIGIO pending for this process. fcntl(2), F_NOTIFY
    """

    def __init__(self, loop: Loop, step: StepFolder, host: Pidfd, on_host_gone: Callable[[Elsewhere], None]) -> None:
        """Takes `step` and `host`."""
        self.step = step
        self._loop = loop
        self._host: Pidfd | None = host
        self._loop.watch_end(host, lambda: on_host_gone(self))
        fcntl.fcntl(step.folder.fileno(), fcntl.F_NOTIFY, _CHANGES)

    def close(self) -> None:
        """Let go. May be called twice."""
        host, self._host = self._host, None
        if host is not None:
            self._loop.forget_end(host)
            host.close()
            self.step.close()
