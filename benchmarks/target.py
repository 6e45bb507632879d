"""What a target is: conditions on figures."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Relation(enum.Enum):
    """What of two figures a bound is about."""

    TIMES = "times"
    """ours / theirs, at most"""
    FASTER = "faster"
    """theirs / ours, at least"""
    ADDED = "added"
    """ours - theirs, at most, in the unit of the figures"""
    VALUE = "value"
    """ours alone, at most"""
    LEAST = "least"
    """ours alone, at least"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """One condition. `ours` and `theirs` name figures; `than` is how the table calls theirs, or, of ours alone, what it is."""

    relation: Relation
    ours: str
    theirs: str = ""
    limit: float
    than: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One line of the table: OK when every bound holds.

    `also`: figures shown in the line that no bound is about. A miss is explained by its `floor` and by what was measured of the
    parts of the calls in `parts`.
    """

    what: str
    bench: str
    bounds: tuple[Bound, ...]
    also: tuple[str, ...] = ()
    floor: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()


def times(ours: str, theirs: str, limit: float, than: str) -> Bound:
    """At most so many times theirs."""
    return Bound(relation=Relation.TIMES, ours=ours, theirs=theirs, limit=limit, than=than)


def faster(ours: str, theirs: str, limit: float, than: str) -> Bound:
    """At least so many times faster than theirs."""
    return Bound(relation=Relation.FASTER, ours=ours, theirs=theirs, limit=limit, than=than)


def added(ours: str, theirs: str, limit: float, than: str) -> Bound:
    """At most so much more than theirs."""
    return Bound(relation=Relation.ADDED, ours=ours, theirs=theirs, limit=limit, than=than)


def value(ours: str, limit: float, of_what: str) -> Bound:
    """At most that."""
    return Bound(relation=Relation.VALUE, ours=ours, limit=limit, than=of_what)


def least(ours: str, limit: float, of_what: str) -> Bound:
    """At least that."""
    return Bound(relation=Relation.LEAST, ours=ours, limit=limit, than=of_what)
