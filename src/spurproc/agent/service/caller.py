"""Who asks, for as long as a conversation lasts."""

from __future__ import annotations

from dataclasses import dataclass

from spurproc.agent.service.peers import Peer

__all__ = ["Caller"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A peer, and the name that its uid had when it came."""

    peer: Peer
    user: str
