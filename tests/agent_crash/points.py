"""Inside an agent that is to be struck: around its effects, commits and acts, each of which may be the last thing that it does.

SPURD_TEST_CRASH, or `arm`: `<PLACE> <before or after> <which time> <signal that it sends itself> [<victim>...]`. The victims,
`host` and `supervisor`, are killed first. What the agent has passed is kept, for who wants to see what a scene reaches.
"""

from __future__ import annotations

import contextlib
import inspect
import signal
import sqlite3
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from spurproc.agent.attempts.effect import Effect
from spurproc.agent.store import database
from spurproc.agent.store.transaction import CommitPoint
from spurproc.core.process.identity import ProcessIdentity
from spurproc.errors import SpurprocError
from spurproc.proto.step_folder import StateFolder
from tests.agent_crash.places import ACTS, OF_A_LAUNCH, commits, holder_of

HOST, SUPERVISOR = "host", "supervisor"
_GONE_WITHIN_S = 60.0


@dataclass(slots=True)
class _Strike:
    """Where, and what is done there."""

    place: str
    when: str
    left: int
    number: int
    victims: tuple[str, ...]


class _Struck:
    """Of this process."""

    strike: _Strike | None = None
    state_dir = ""
    passed: set[tuple[str, str]] = set()  # noqa: RUF012 - of the class, which is the process
    lock = threading.Lock()


def arm(text: str) -> None:
    """From here on."""
    place, when, which, number, *victims = text.split()
    _Struck.strike = _Strike(place, when, int(which), signal.Signals[number], tuple(victims))


def passed() -> list[str]:
    """All places that were passed since `install`, as `<PLACE> <when>`."""
    return sorted(" ".join(each) for each in _Struck.passed)


def stand(place: str, when: str) -> None:
    """Here we are."""
    with _Struck.lock:
        _Struck.passed.add((place, when))
        strike = _Struck.strike
        if strike is None or (strike.place, strike.when) != (place, when):
            return
        strike.left -= 1
        if strike.left:
            return
        _Struck.strike = None
    _kill(strike.victims)
    signal.raise_signal(signal.Signals(strike.number))


def at_effect(effect: Effect, when: str) -> None:
    """The failpoint of the effects."""
    stand(effect.name, when)


def _kill(victims: tuple[str, ...]) -> None:
    """The first step is the neighbour's: its supervisor lives."""
    with contextlib.suppress(SpurprocError), StateFolder.open(f"{_Struck.state_dir}/steps") as state:
        for step in sorted(state.names()[0]):
            with contextlib.suppress(SpurprocError), state.open_step(step) as folder:
                descriptor = folder.descriptor()
                if descriptor is None:
                    continue
                if HOST in victims and descriptor.host is not None:
                    _end(descriptor.host)
                if SUPERVISOR in victims and step.job_id > 1:
                    _end(descriptor.supervisor)


def _end(who: ProcessIdentity) -> None:
    with contextlib.suppress(SpurprocError), who.open() as pidfd:
        pidfd.send_signal(signal.SIGKILL)
        pidfd.wait(_GONE_WITHIN_S, reap_grace_s=0)


# What is put around the agent's own functions.


def install(state_dir: str) -> None:
    """Around all places but the effects, which have a door of their own."""
    _Struck.state_dir = state_dir
    for place in (*ACTS, *OF_A_LAUNCH):
        _replace(place, _around)
    noted = _Noted()
    for place in commits():
        _replace(place, noted.around)
    real = database.Database.__init__

    def opened(
        self: Any,
        path: str,
        connection: sqlite3.Connection,
        failpoint: Callable[[CommitPoint], None],
        may_write: Callable[[], None] = lambda: None,
    ) -> None:
        real(self, path, connection, noted.at, may_write)

    database.Database.__init__ = opened  # type: ignore[method-assign]


class _Noted(threading.local):
    """Which bodies have run in the transaction that this thread is in."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def around(self, place: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def body(*arguments: Any, **more: Any) -> Any:
            self.names.append(place)
            return real(*arguments, **more)

        return body

    def at(self, point: CommitPoint) -> None:
        if point is CommitPoint.BEGIN:
            self.names = []
        else:
            for name in self.names:
                stand(name, "before" if point is CommitPoint.BEFORE_COMMIT else "after")


def _around(place: str, real: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(real):

        async def act_async(*arguments: Any, **more: Any) -> Any:
            stand(place, "before")
            answer = await real(*arguments, **more)
            stand(place, "after")
            return answer

        return act_async

    def act(*arguments: Any, **more: Any) -> Any:
        stand(place, "before")
        answer = real(*arguments, **more)
        stand(place, "after")
        return answer

    return act


def _replace(place: str, wrap: Callable[[str, Callable[..., Any]], Callable[..., Any]]) -> None:
    """Where it stands, and wherever it was imported to."""
    holder, name = holder_of(place)
    real = getattr(holder, name)
    wrapped = wrap(place, real)
    setattr(holder, name, wrapped)
    for key, module in list(sys.modules.items()):
        if key.startswith(("spurproc.agent", "spurproc.client")) and vars(module).get(name) is real:
            setattr(module, name, wrapped)
