"""Files of this node, below a root that may be another folder than `/`. What cannot be read is said, and never left out."""

from __future__ import annotations

import errno
import os

from spurproc.command_line.escape import printable
from spurproc.errors import SpurprocError

__all__ = ["NodeFiles", "Unreadable"]

_LIMIT_BYTES = 4 << 20
"""No file of /proc or /sys that is read here has more, and no CDI spec of a sane size."""


class Unreadable(SpurprocError):
    """A file of this node that cannot be read, or that says nothing; the message names it. A reader makes it a `Failed`."""

    def __init__(self, message: str) -> None:
        """What a file is called, and what it says, may be no text."""
        super().__init__(printable(message))


class NodeFiles:
    """Absolute paths, as they are called on the node, below `root`. Blocks as long as the kernel does."""

    def __init__(self, root: str) -> None:
        self._root = root.rstrip("/")

    def read(self, path: str) -> str:
        """All of a text file. Raises Unreadable, for a file that is not there too."""
        text = self.read_if_there(path)
        if text is None:
            raise Unreadable(f"cannot read {path}: {os.strerror(errno.ENOENT)}")
        return text

    def read_if_there(self, path: str) -> str | None:
        """As `read`; None where there is no such file, and no such folder."""
        try:
            with open(self._at(path), "rb") as file:
                content = file.read(_LIMIT_BYTES + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise Unreadable(f"cannot read {path}: {error.strerror}") from None
        if len(content) > _LIMIT_BYTES:
            raise Unreadable(f"cannot read {path}: it has more than {_LIMIT_BYTES} bytes")
        return content.decode("utf-8", "surrogateescape")

    def names(self, path: str) -> list[str] | None:
        """What is in a folder, in order; None where there is no such folder. Raises Unreadable."""
        try:
            return sorted(os.listdir(self._at(path)))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Unreadable(f"cannot list {path}: {error.strerror}") from None

    def link_name(self, path: str) -> str | None:
        """The last part of where a symbolic link leads; None where there is no such link. Raises Unreadable."""
        try:
            return os.path.basename(os.readlink(self._at(path)))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Unreadable(f"cannot read the link {path}: {error.strerror}") from None

    def is_there(self, path: str) -> bool:
        """Whether something has this name. Raises Unreadable where that cannot be told."""
        try:
            os.stat(self._at(path))
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise Unreadable(f"cannot look at {path}: {error.strerror}") from None
        return True

    def _at(self, path: str) -> str:
        """Where it is. Raises Unreadable for what no file can be called."""
        whole = self._root + path
        try:
            callable_so = b"\0" not in os.fsencode(whole)
        except UnicodeEncodeError:
            callable_so = False
        if not callable_so:
            raise Unreadable(f"cannot look at {path!r}: no file can be called so")
        return whole
