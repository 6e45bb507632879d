"""What the registration asks of this node, and tells it."""

from __future__ import annotations

from spurproc.agent.attempts.dispatch import Attempts
from spurproc.agent.attempts.surroundings import Surroundings
from spurproc.agent.controller.link import NodeDescription, Reclaim, Unreachable
from spurproc.agent.controller.registration import NodeSide
from spurproc.core.vantage import read_boot_id
from spurproc.errors import SystemCallError
from spurproc.version import VERSION

__all__ = ["node_side"]


def node_side(around: Surroundings, attempts: Attempts) -> NodeSide:
    """Of the agent whose surroundings these are."""
    boot_id = read_boot_id()

    def describe() -> NodeDescription:
        return NodeDescription(
            node=around.configuration.node_name,
            boot_id=boot_id,
            version=VERSION,
            totals=around.resources.inventory,
            drains=tuple(drain.why for drain in around.drains),
        )

    def reached(answered: bool) -> None:
        if answered is not around.reached.is_set():
            around.log.info("the controller answers" if answered else "the controller does not answer")
        (around.reached.set if answered else around.reached.clear)()

    def reclaim(order: Reclaim) -> None:
        attempt = attempts.find(order.attempt)
        if attempt is None or attempt.given_up:
            return
        attempt.given_up = True
        attempts.cancel(attempt, around.intent(order.why or "the controller has given it up", given_up=True))

    def may_speak() -> None:
        try:
            around.ownership.require()
        except SystemCallError as error:
            raise Unreachable(f"not asked: {error}") from error

    return NodeSide(describe=describe, running=lambda: attempts.running, reclaim=reclaim, reached=reached, may_speak=may_speak)
