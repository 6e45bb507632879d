"""Kinds of settings that hold more than one thing: programs with arguments, words, CPUs, counts, kill plans."""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

from spurproc.agent.configuration.kinds import NUMBER, Kind, Seconds, shown, toml_string
from spurproc.core.tree.termination import KillPlan

__all__ = ["Argv", "Counts", "CpuList", "Kills", "Words"]

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,62}", re.ASCII)
_MAX_CPU = 1 << 16
_MAX_COUNT = 1 << 31
_GRACE_LAST_S = 3600.0


@dataclass(frozen=True, slots=True)
class Argv(Kind[tuple[str, ...]]):
    """A program, by its absolute path, and its arguments; empty: none. Text is split into them as by a shell."""

    meaning: str = "a program by its absolute path and its arguments, or empty for none"

    def from_toml(self, value: object) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise ValueError(f"{shown(value)} is not a list of {self.meaning}")
        return self._checked(value)

    def from_text(self, text: str) -> tuple[str, ...]:
        try:
            return self._checked(shlex.split(text))
        except ValueError as error:
            raise ValueError(f"{shown(text)} is not {self.meaning}: {error}") from None

    def _checked(self, argv: list[str]) -> tuple[str, ...]:
        if argv and not argv[0].startswith("/"):
            raise ValueError(f"{shown(argv[0])} is not an absolute path")
        if any("\0" in each for each in argv):
            raise ValueError("an argument holds a NUL")
        return tuple(argv)

    def to_text(self, value: tuple[str, ...]) -> str:
        return shlex.join(value)

    def to_toml(self, value: tuple[str, ...]) -> str:
        return _toml_array(value)


@dataclass(frozen=True, slots=True)
class Words(Kind[tuple[str, ...]]):
    """Words, in their order, none twice; empty: none. As text with commas between them."""

    meaning: str = "a list of words without spaces and commas, none twice"

    def from_toml(self, value: object) -> tuple[str, ...]:
        words = tuple(value) if isinstance(value, list) else ("",)
        if not all(isinstance(word, str) and re.fullmatch(r"[^\s,\x00]+", word) for word in words) or len(set(words)) != len(
            words
        ):
            raise self._wrong(value)
        return words

    def from_text(self, text: str) -> tuple[str, ...]:
        return self.from_toml([word.strip() for word in text.split(",")] if text.strip() else [])

    def to_text(self, value: tuple[str, ...]) -> str:
        return ",".join(value)

    def to_toml(self, value: tuple[str, ...]) -> str:
        return _toml_array(value)


@dataclass(frozen=True, slots=True)
class CpuList(Kind[tuple[int, ...]]):
    """Numbers of CPUs, in order, as Linux writes them: cpuset(7), "List format"."""

    meaning: str = "a list of CPUs such as 0-3,8"

    def from_text(self, text: str) -> tuple[int, ...]:
        found: set[int] = set()
        for part in text.split(","):
            first, dash, last = part.strip().partition("-")
            if not NUMBER.fullmatch(first) or (dash and not NUMBER.fullmatch(last)):
                raise self._wrong(text)
            cpus = range(int(first), int(last if dash else first) + 1)
            if not cpus or cpus[-1] >= _MAX_CPU or not found.isdisjoint(cpus):
                raise self._wrong(text)
            found.update(cpus)
        return tuple(sorted(found))

    def to_text(self, value: tuple[int, ...]) -> str:
        starts = [value[0], *(after for before, after in pairwise(value) if after != before + 1)]
        ends = [*(before for before, after in pairwise(value) if after != before + 1), value[-1]]
        return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in zip(starts, ends, strict=True))


@dataclass(frozen=True, slots=True)
class Counts(Kind[Mapping[str, int]]):
    """How many there are of each of some things; a table in TOML, `name=2,other=1` as text."""

    meaning: str = "names, each with how many there are of it"

    def from_toml(self, value: object) -> Mapping[str, int]:
        if not isinstance(value, dict):
            raise self._wrong(value)
        for name, count in value.items():
            if not _NAME.fullmatch(name):
                raise ValueError(f"{name!r} is not a name: a letter, then letters, digits, '_', '.', '-'")
            if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count < _MAX_COUNT:
                raise ValueError(f"{name}: {shown(count)} is not a whole number from 0 to {_MAX_COUNT - 1}")
        return MappingProxyType(dict(value))

    def from_text(self, text: str) -> Mapping[str, int]:
        counts: dict[str, object] = {}
        for part in text.split(",") if text.strip() else []:
            name, _, count = part.partition("=")
            if name.strip() in counts or not NUMBER.fullmatch(count.strip()):
                raise ValueError(f"{shown(text)} is not {self.meaning}, such as fpga=2,port=16")
            counts[name.strip()] = int(count)
        return self.from_toml(counts)

    def to_text(self, value: Mapping[str, int]) -> str:
        return ",".join(f"{name}={count}" for name, count in value.items())

    def to_toml(self, value: Mapping[str, int]) -> str:
        return f"{{ {', '.join(f'{toml_string(name)} = {count}' for name, count in value.items())} }}" if value else "{}"


@dataclass(frozen=True, slots=True)
class Kills(Kind[KillPlan]):
    """A kill plan: `SIGINT:5,SIGTERM:10,SIGKILL`, each with the seconds that the tree is given after it.

    `for_users`: it is one that jobs of all users may have, which comes to SIGKILL within an hour.
    """

    for_users: bool = False
    meaning: str = "signals with seconds after each, such as SIGTERM:10,SIGKILL; only the last may be without"

    def from_text(self, text: str) -> KillPlan:
        try:
            plan = KillPlan(steps=tuple(self._step(part.strip()) for part in text.split(",")))
        except ValueError as error:
            raise ValueError(f"{shown(text)} is not {self.meaning}: {error}") from None
        if self.for_users and not _ends(plan):
            raise ValueError(f"{shown(text)} does not come to SIGKILL within {_GRACE_LAST_S:g} s, and jobs of users have to")
        return plan

    @staticmethod
    def _step(text: str) -> tuple[int, float | None]:
        name, colon, grace = text.partition(":")
        name = name if name.startswith("SIG") else f"SIG{name}"
        if name not in signal.Signals.__members__:
            raise ValueError(f"no signal has the name {name[:40]!r}")
        return signal.Signals[name], Seconds(low=0.0).from_text(grace) if colon else None

    def to_text(self, value: KillPlan) -> str:
        return ",".join(
            signal.Signals(number).name + ("" if grace_s is None else f":{Seconds(low=0.0).to_text(grace_s)}")
            for number, grace_s in value.steps
        )


def _ends(plan: KillPlan) -> bool:
    return plan.steps[-1][0] == signal.SIGKILL and sum(grace_s or 0.0 for _, grace_s in plan.steps[:-1]) <= _GRACE_LAST_S


def _toml_array(words: Iterable[str]) -> str:
    return f"[{', '.join(map(toml_string, words))}]"
