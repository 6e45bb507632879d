"""Inside a process of the matrix: its durable writes, effects and acts, each of which asks the conductor before it is done.

The product has no failpoints. What is asked stands around its two runners: `os` as core.durable and the launcher see it, and
`EffectRunner.do`; and around the acts of the host and of the launcher, by their names in rows.py.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import sys
from _socket import AF_UNIX, SOCK_CLOEXEC, SOCK_SEQPACKET, socket
from collections.abc import Callable
from typing import Any, ClassVar

from spurproc.errors import from_errno
from tests.crash.rows import FORK_ACTS, HOST_ACTS, LAUNCHER_ACTS

VARIABLE = "SPURPROC_TEST_CONDUCTOR"
DURABLE_MODULES = (
    "spurproc.core.durable.journal",
    "spurproc.core.durable.private_folder",
    "spurproc.core.durable.lock",
    "spurproc.client.launch",
    "spurproc.client.removal",
    "spurproc.stepd.peer",
)
DURABLE_CALLS = ("write", "fsync", "fdatasync", "ftruncate", "rename", "mkdir", "open", "unlink", "rmdir")
LAUNCHER, HOST, SUPERVISOR = "launcher", "host", "supervisor"
_ANSWER_BYTES = 1024


class _Process:
    """Who we are, on what, and the line to the conductor, which no fork shares."""

    role = ""
    pid = 0
    line: socket | None = None
    acts: ClassVar[list[tuple[str, str]]] = []
    nofile: tuple[int, int] | None = None
    watched: ClassVar[dict[str, frozenset[str]]] = {}


def become(role: str, step: str = "") -> None:
    """From here on this process is one of the matrix."""
    _Process.role = role
    _Process.acts = [("", step)]


def ask(when: str, point: str, kind: str) -> str:
    """Stand at a point until the conductor says what is to become of it. Without a conductor: go on.

    With its answer it may have said which points it watches for this step: the others are told of, and not stood at.
    """
    is_new = _Process.pid != os.getpid()
    line = _line()
    if line is None:
        return "go"
    act, step = _Process.acts[-1] if _Process.acts else ("", "")
    waits = is_new or _Process.nofile is not None or point in _Process.watched.get(step, (point,))
    said = {"role": _Process.role, "step": step, "act": act, "when": when, "point": point, "kind": kind, "waits": waits}
    try:
        line.send(json.dumps(said).encode())
        answer, *watched = (line.recv(_ANSWER_BYTES) if waits else b"go").decode().split("\n")
    except OSError:
        answer, watched = "", []
    if watched:
        _Process.watched = {step: frozenset(watched)}
    _limit_descriptors(answer)
    return answer or "go"


def _line() -> socket | None:
    if _Process.pid != os.getpid():
        if _Process.line is not None:
            _Process.line.detach()  # a supervisor has closed it, whatever its number is now
        _Process.pid = os.getpid()
        _Process.line = _connected()
    return _Process.line


def _connected() -> socket | None:
    end = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)
    try:
        end.connect("\0" + os.environ.get(VARIABLE, "nobody"))
    except OSError:
        end.close()
        return None
    return end


def _limit_descriptors(answer: str) -> None:
    """Really: the next descriptor that anything in here asks for is refused, EMFILE, until the conductor lifts that."""
    if answer == "nofile" and _Process.nofile is None:
        _Process.nofile = resource.getrlimit(resource.RLIMIT_NOFILE)
        lowest = os.open("/", os.O_PATH)
        os.close(lowest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, _Process.nofile[1]))
    elif answer != "nofile" and _Process.nofile is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, _Process.nofile)
        _Process.nofile = None


def around(name: str, step: str, function: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
    """Do one act, and stand before and after it."""
    _Process.acts.append((name, step or (_Process.acts[-1][1] if _Process.acts else "")))
    try:
        answer = ask("before", name, "act")
        try:
            if answer.startswith("errno "):
                raise from_errno(int(answer[6:]), "do", name)
            return function(*arguments, **more)
        finally:
            ask("after", name, "act")
    finally:
        _Process.acts.pop()


class _WatchedOs:
    """`os` to a module that writes what has to last."""

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


def _watched_call(name: str) -> Callable[..., Any]:
    real = getattr(os, name)

    def call(self: _WatchedOs, *arguments: Any, **more: Any) -> Any:
        if name == "open" and not arguments[1] & (os.O_CREAT | os.O_RDWR):
            return real(*arguments, **more)
        function = sys._getframe(1).f_code.co_name
        answer = ask("before", f"{function}:{name}", "write")
        if answer.startswith("errno "):
            number = int(answer[6:])
            raise OSError(number, os.strerror(number))
        if answer == "short":
            return real(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
        return real(*arguments, **more)

    return call


for _name in DURABLE_CALLS:
    setattr(_WatchedOs, _name, _watched_call(_name))


def _wrap_methods(acts: dict[str, int], owners: dict[str, Any], step_of: Callable[..., str]) -> None:
    for name in acts:
        owner, _, method = name.rpartition(".")
        setattr(owners[owner], method, _wrapped(name, getattr(owners[owner], method), step_of))


def _wrapped(name: str, real: Callable[..., Any], step_of: Callable[..., str]) -> Callable[..., Any]:
    def call(*arguments: Any, **more: Any) -> Any:
        return around(name, step_of(*arguments), real, *arguments, **more)

    return call


def _watch_os() -> None:
    for module in DURABLE_MODULES:
        if module in sys.modules:
            sys.modules[module].__dict__["os"] = _WatchedOs()


def _host_step(*arguments: Any) -> str:
    """The step that an act of the host is about: of its witness, or of one of its arguments."""
    from spurproc.proto.runtime_id import RuntimeId  # noqa: PLC0415 - as in install_stepd
    from spurproc.proto.step_folder import StepFolder  # noqa: PLC0415

    for argument in arguments:
        found = getattr(argument, "step", argument)
        if isinstance(found, StepFolder):
            return str(found.runtime_id)
        if isinstance(found, RuntimeId):
            return str(found)
    return ""


def install_stepd() -> None:
    """Around the host, and so around the supervisors that it forks."""
    effects, forking, host, supervisor, witness = (
        importlib.import_module(f"spurproc.stepd.{name}") for name in ("effects", "forking", "host", "supervisor", "witness")
    )
    _watch_os()
    _wrap_methods(HOST_ACTS, {"Host": host.Host, "Witness": witness.Witness}, _host_step)
    _wrap_methods(FORK_ACTS, {"": forking}, lambda *_: "")
    real_do, real_supervise, real_move = effects.EffectRunner.do, vars(forking)["_supervise"], vars(supervisor)["move"]

    def do(self: Any, effect: Any) -> None:
        around(effect.value, "", real_do, self, effect)

    def supervise(request: Any, *arguments: Any) -> None:
        become(SUPERVISOR, str(request.step.runtime_id))
        real_supervise(request, *arguments)

    def move(state: Any, event: Any, facts: Any) -> Any:
        answer = real_move(state, event, facts)
        if answer is not None and answer.effects:
            ask("move", f"{state.name}+{event.name}", "move")
        return answer

    effects.EffectRunner.do = do
    vars(forking)["_supervise"] = supervise
    vars(supervisor)["move"] = move
    vars(host)["rehearse"] = lambda *_: None  # what it saves is memory
    become(HOST)


def install_launcher(step: str) -> None:
    """Around the client, in a process that is to launch one step."""
    importlib.import_module("spurproc.client.collection")
    _watch_os()
    for name in LAUNCHER_ACTS:
        where, _, function = name.rpartition(".")
        module, _, owner = where.partition(":")
        holder = sys.modules[f"spurproc.{module}"]
        _replace(getattr(holder, owner) if owner else holder, function, name)
    become(LAUNCHER, step)


def _replace(holder: Any, function: str, name: str) -> None:
    """Where it stands, and wherever it was imported to."""
    real = getattr(holder, function)
    wrapped = _wrapped(name, real, lambda *_: "")
    setattr(holder, function, wrapped)
    for module in [module for key, module in sys.modules.items() if key.startswith("spurproc.client")]:
        if vars(module).get(function) is real:
            setattr(module, function, wrapped)
