"""The agent's log: a line a fact, whatever users have put into it."""

from __future__ import annotations

import json
import os
import sys

import pytest

from spurproc.agent.log import open_log

_WHY = "\x1b[31m red\nlevel=error \u202e\udcff"


def test_what_a_user_chooses_is_text_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    open_log("info", "text").info("the node drains", why=_WHY, nothing=None)
    line = capsys.readouterr().err
    assert line.endswith(r''' level=info event="the node drains" why="\x1b[31m red\nlevel=error \u202e\xff"''' + "\n")
    assert line[:-1].isprintable()


def test_what_nobody_reads_any_more_is_lost_and_nothing_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is it kept, to come in the middle of a later line."""
    read, write = os.pipe()
    with os.fdopen(write, "w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        log = open_log("info", "text")
        os.close(read)
        log.info("the reader is gone")
    monkeypatch.setattr(sys, "stderr", None)
    open_log("info", "text").info("there was none")


def test_a_reader_that_stands_still_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once there is room lines come whole again."""
    read, write = os.pipe()
    with os.fdopen(read, "rb", buffering=0) as reader, os.fdopen(write, "w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        log = open_log("info", "text")
        for _ in range(1000):
            log.info("x" * 1000)
        while b"y" not in (content := reader.read(1 << 20)):
            log.info("y")
        assert content.endswith(b"event=y\n")


def test_in_json_it_is_what_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    open_log("info", "json").info("the node drains", why="\x1b[31m red\n")
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert json.loads(line)["why"] == "\x1b[31m red\n"
