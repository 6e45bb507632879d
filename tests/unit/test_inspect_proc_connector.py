"""What is said where the socket of process events cannot be opened: only some errnos tell that the kernel lacks it."""

from __future__ import annotations

import errno
import platform

import pytest

from spurproc.errors import SystemCallError, Unsupported
from spurproc.inspect.exit_code import ExitCode
from spurproc.inspect.main import exit_code_of
from spurproc.inspect.proc_connector import ProcConnector
from tests import seccomp
from tests.descriptors import descriptors_left
from tests.relatives import in_fork

_SOCKET = {"x86_64": 41, "aarch64": 198}[platform.machine()]
_BIND = {"x86_64": 49, "aarch64": 200}[platform.machine()]


def refusal(number: int, code: int) -> tuple[str, str]:
    """Class and message, where the system call `number` fails with `code`."""

    def ask() -> tuple[str, str]:
        seccomp.refuse(number, code)
        with pytest.raises((Unsupported, SystemCallError)) as caught:
            ProcConnector()
        return caught.type.__name__, str(caught.value)

    kind, message = in_fork(ask)
    return kind, message


def test_no_descriptor_left_is_no_lack_of_the_kernel() -> None:
    with (
        descriptors_left(0),
        pytest.raises(SystemCallError, match="cannot open the socket of process events: Too many") as caught,
    ):
        ProcConnector()
    assert caught.value.errno == errno.EMFILE
    assert exit_code_of(caught.value, {}) is ExitCode.FAILS


@pytest.mark.parametrize("code", [errno.EPROTONOSUPPORT, errno.EAFNOSUPPORT, errno.ESOCKTNOSUPPORT])
def test_a_kernel_without_the_protocol_lacks_it(code: int) -> None:
    kind, message = refusal(_SOCKET, code)
    assert (kind, "the kernel needs CONFIG_CONNECTOR" in message) == ("Unsupported", True)


def test_only_a_missing_right_is_called_one() -> None:
    kind, message = refusal(_BIND, errno.EPERM)
    assert (kind, "CAP_NET_ADMIN" in message) == ("Unsupported", True)
    assert refusal(_BIND, errno.ENOMEM) == ("SystemCallError", "cannot open the socket of process events: Cannot allocate memory")
