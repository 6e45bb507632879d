"""GPUs that a job has given back, and something still uses: no other job gets them until that is over."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable

import msgspec

from spurproc.agent.attempts.attempt import Attempt
from spurproc.agent.attempts.surroundings import Surroundings
from spurproc.agent.controller.registration import BackOff
from spurproc.agent.inventory.occupancy import Use, device_files, uses_of
from spurproc.agent.inventory.reading import Gpu
from spurproc.agent.lone_thread import LoneThread
from spurproc.agent.store.node_values import NodeValue, read_value, write_value
from spurproc.errors import OwnershipLost, RecordInvalid, SpurprocError
from spurproc.proto.attempt_id import AttemptId
from spurproc.proto.codec import decode, encode

__all__ = ["HeldBack"]

_FIRST_S, _LAST_S = 0.5, 30.0
_WITHIN_S = 5.0


class Remnant(msgspec.Struct, frozen=True, kw_only=True):
    """Something that `attempt` has left on its GPU; it was started at or after `since_ticks`."""

    gpu: Gpu
    attempt: AttemptId
    since_ticks: int


class _Record(msgspec.Struct, frozen=True, kw_only=True):
    remnants: tuple[Remnant, ...] = ()


class HeldBack:
    """Those that are held back, durable: a restart forgets none of them."""

    def __init__(self, around: Surroundings, live: Callable[[], Iterable[Attempt]]) -> None:
        """`live`: all attempts of which something runs, or may."""
        self._around = around
        self._live = live
        self._remnants: dict[Gpu, Remnant] = {}
        self._news = asyncio.Event()
        self._thread = LoneThread(_WITHIN_S)

    async def begin(self) -> None:
        """At a start, before an end is found behind which more may be held back: what was recorded would be written over.

        A record that cannot be read holds nothing back, and stops no agent.
        """
        content = await self._around.database.read(lambda connection: read_value(connection, NodeValue.HELD_BACK))
        try:
            record = _Record() if content is None else decode(content, _Record, "the GPUs that are held back")
        except RecordInvalid as error:
            self._around.log.error("which GPUs are held back is not known", why=str(error))  # noqa: TRY400 - no traceback for a fact
            return
        self._hold(record.remnants)

    async def look_behind(self, attempt: Attempt) -> None:
        """All of `attempt` has ended as far as anybody can tell, and its GPUs are still its own: who else has them open?

        What is found is held back, durably, before they are given back.
        """
        gpus = () if attempt.allocation is None else attempt.allocation.gpus
        if not gpus or self._around.configuration.gpus_in_use == "give":
            return
        since_ticks = 0 if attempt.trace.leader is None else attempt.trace.leader.start_ticks
        remnants = [Remnant(gpu=gpu, attempt=attempt.id, since_ticks=since_ticks) for gpu in gpus]
        used = [one for one in remnants if await self._is_used(one)]
        if used:
            self._hold(used)  # at once: what another finds meanwhile is written down with it, not in its place
            await self._remember_at_last()

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            back_off = BackOff(first_s=_FIRST_S, last_s=_LAST_S)
            while self._remnants:
                await asyncio.sleep(back_off.next_s())
                await self.turn()

    async def turn(self) -> None:
        """Whatever is used no more is free."""
        for remnant in list(self._remnants.values()):
            if await self._is_used(remnant):
                continue
            if not await self._remembered([one for one in self._remnants.values() if one.gpu != remnant.gpu]):
                return
            del self._remnants[remnant.gpu]
            self._around.resources.readmit(remnant.gpu)
            self._around.problems.pop(_cause(remnant.gpu), None)
            self._around.log.info("a GPU is free after all", gpu=str(remnant.gpu))
            self._around.freed.set()

    def _hold(self, remnants: Iterable[Remnant]) -> None:
        for remnant in remnants:
            self._remnants[remnant.gpu] = remnant
            self._around.resources.withhold(remnant.gpu)
            self._news.set()

    async def _is_used(self, remnant: Remnant) -> bool:
        """Where it cannot be told, as of a kernel that does not answer, it may be, so it is."""
        cause, uses = _cause(remnant.gpu), ""
        try:
            found = await self._thread.run(_look, self._around.inventory_root, remnant, self._spared())
            uses = "; ".join(map(str, found))
        except (OSError, SpurprocError) as error:
            uses = f"who uses it is not known: {error}"
        if uses:
            why = f"{remnant.gpu} is held back: attempt {remnant.attempt} has ended, and {uses}"
            if self._around.problems.get(cause) != why:
                self._around.log.warning("a GPU is held back", gpu=str(remnant.gpu), why=why)
            self._around.problems[cause] = why
        return bool(uses)

    def _spared(self) -> frozenset[str]:
        """The names of the cgroups of whatever runs: what is done in them is their own business."""
        traces = (attempt.trace.cgroup for attempt in self._live())
        return frozenset(os.path.basename(cgroup.path) for cgroup in traces if cgroup is not None)

    async def _remember_at_last(self) -> None:
        """However long the disk is full."""
        back_off = BackOff(first_s=_FIRST_S, last_s=_LAST_S)
        while True:
            if await self._remembered(self._remnants.values()):
                return
            await asyncio.sleep(back_off.next_s())

    async def _remembered(self, remnants: Iterable[Remnant]) -> bool:
        """False where it cannot be written now. Raises OwnershipLost."""
        content, at = encode(_Record(remnants=tuple(remnants))), self._around.clock()
        try:
            self._around.ownership.require()
            await self._around.database.write(lambda connection: write_value(connection, NodeValue.HELD_BACK, content, at=at))
        except OwnershipLost:
            raise
        except SpurprocError as error:
            self._around.log.warning("cannot say which GPUs are held back", error=str(error))
            return False
        return True


def _cause(gpu: Gpu) -> str:
    return f"GPU {gpu}"


def _look(root: str, remnant: Remnant, spared: frozenset[str]) -> tuple[Use, ...]:
    paths = device_files(root, remnant.gpu)
    return uses_of(root, paths, since_ticks=remnant.since_ticks, spared=spared)
