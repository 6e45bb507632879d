"""Notices that a held folder was removed."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from contextlib import suppress

from spurproc.core.durable.private_folder import PrivateFolder
from spurproc.stepd.loop import Loop

__all__ = ["FolderWatch"]

_FIRST_S, _LAST_S = 0.02, 5.0


class FolderWatch:
    """By dnotify, which costs no descriptor, as an inotify instance would, of which a user has 128. F_NOTIFY, fcntl(2)

    It sends SIGIO for what is removed in the folder, and none for the folder itself. So once the lock file is gone, which nobody
    removes but along with all of it, the folder is looked at from time to time.
    """

    def __init__(self, loop: Loop, folder: PrivateFolder, on_removed: Callable[[], None]) -> None:
        self._loop = loop
        self._folder = folder
        self._on_removed = on_removed
        self._wait_s = _FIRST_S
        with suppress(OSError):  # a file system, or a kernel, without it
            fcntl.fcntl(folder.fileno(), fcntl.F_NOTIFY, fcntl.DN_DELETE | fcntl.DN_MULTISHOT)

    @property
    def gone(self) -> bool:
        """Whether it was removed."""
        return os.fstat(self._folder.fileno()).st_nlink == 0

    def look(self) -> None:
        """For SIGIO. `on_removed` is called each time that it is found gone."""
        if self.gone:
            self._on_removed()
        elif self._folder.has("lock"):
            self._wait_s = _FIRST_S
        else:
            self._loop.at("folder", self._wait_s, self.look)
            self._wait_s = min(2 * self._wait_s, _LAST_S)
