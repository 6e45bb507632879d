"""Where a host is found: `<state_dir>/host-<version>/`, with its lock and its socket. One for each release that is in use."""

from __future__ import annotations

import errno

from spurproc.core.durable.private_folder import PrivateFolder
from spurproc.errors import AlreadyGone, SystemCallError
from spurproc.proto.step_folder import StateFolder
from spurproc.version import VERSION

__all__ = ["HOST_PREFIX", "HOST_SOCKET_NAME", "host_address", "open_host_folder"]

HOST_PREFIX = "host-"
HOST_SOCKET_NAME = "host.sock"


def open_host_folder(state: StateFolder, version: str = VERSION) -> PrivateFolder:
    """The folder of the host of `version`, made if there is none; the caller owns it."""
    name = f"{HOST_PREFIX}{version}"
    try:
        return state.folder.open_folder(name)
    except AlreadyGone:
        pass
    try:
        return state.folder.create_folder(name)
    except SystemCallError as error:
        if error.errno != errno.EEXIST:
            raise
    return state.folder.open_folder(name)


def host_address(folder: PrivateFolder) -> str:
    """The host's socket, reached through the held folder, however long its path."""
    return f"/proc/self/fd/{folder.fileno()}/{HOST_SOCKET_NAME}"
