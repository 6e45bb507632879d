"""The loop of a supervisor: what comes before what."""

from __future__ import annotations

import os
import select

from spurproc.stepd.loop import Loop


def test_what_is_readable_comes_before_a_timer_for_at_once() -> None:
    """As a supervisor needs it that has ended a tree: it takes in the ends before it looks for whoever is left."""
    loop, order = Loop(), list[str]()
    first, second = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)

    def take(fd: int, name: str) -> None:
        os.read(fd, 1)
        order.append(name)

    def begin(_: int) -> None:
        take(first[0], "begun")
        loop.at("at once", 0, over)
        os.write(second[1], b"r")

    def over() -> None:
        order.append("timer")
        loop.stop()

    loop.watch(first[0], select.EPOLLIN, begin)
    loop.watch(second[0], select.EPOLLIN, lambda _: take(second[0], "readable"))
    os.write(first[1], b"r")
    loop.run()
    loop.close()
    for fd in (*first, *second):
        os.close(fd)
    assert order == ["begun", "readable", "timer"]
