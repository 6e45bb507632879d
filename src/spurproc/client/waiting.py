"""Waiting for the end of a step: the steps of it, for who blocks and for who runs an asyncio loop."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing

from spurproc.client.following import Following
from spurproc.client.place import StepPlace, step_errors
from spurproc.core.deadline import deadline_after, has_passed, left_s, shortest_s
from spurproc.core.exit_info import ExitInfo
from spurproc.core.recorded.watch import Watch, wait_async_for, wait_for
from spurproc.errors import WaitTimeout

__all__ = ["wait_for_end", "wait_for_end_async"]


def wait_for_end(place: StepPlace, timeout_s: float | None, *, completed: bool) -> ExitInfo:
    """How it ended. Blocks. Raises WaitTimeout."""
    with step_errors(place.runtime_id), closing(_steps(place, timeout_s, completed=completed)) as steps:
        try:
            while True:
                wait_for(next(steps))
        except StopIteration as end:
            result: ExitInfo = end.value
            return result


async def wait_for_end_async(place: StepPlace, timeout_s: float | None, *, completed: bool) -> ExitInfo:
    """As `wait_for_end`, on the running asyncio loop."""
    with step_errors(place.runtime_id), closing(_steps(place, timeout_s, completed=completed)) as steps:
        try:
            while True:
                await wait_async_for(next(steps))
        except StopIteration as end:
            result: ExitInfo = end.value
            return result


def _steps(place: StepPlace, timeout_s: float | None, *, completed: bool) -> Generator[Watch, None, ExitInfo]:
    deadline = deadline_after(timeout_s)
    following = Following(place)
    with closing(following.news()) as news:
        for watch in news:
            if following.is_behind:
                following.look()
            if following.ended is not None and (following.completed or not completed):
                return following.ended
            if has_passed(deadline):
                break
            yield Watch(entries=watch.entries, timeout_s=shortest_s(watch.timeout_s, left_s(deadline)))
    what = "is not over" if completed else "has not ended"
    raise WaitTimeout(f"step {place.runtime_id} {what} after {timeout_s} s")
