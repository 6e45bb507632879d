"""Reports of tests that ran in another pytest, brought to this one as lines of JSON in a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


class Recorder:
    """There: hands each report on."""

    def __init__(self, config: pytest.Config, path: Path) -> None:
        self._config = config
        self._path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Append one line of JSON."""
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(data) + "\n")


def recorded(config: pytest.Config, path: Path) -> list[pytest.TestReport]:
    """Here: what was handed on, in that order."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [_restored(config, json.loads(line)) for line in lines]


def _restored(config: pytest.Config, data: dict[str, Any]) -> pytest.TestReport:
    if isinstance(data["longrepr"], list):  # a skip's (path, line, reason): JSON has no tuples, and the terminal asks for one
        data["longrepr"] = tuple(data["longrepr"])
    report: pytest.TestReport = config.hook.pytest_report_from_serializable(config=config, data=data)
    return report


def failed(nodeid: str, text: str) -> pytest.TestReport:
    """A failure that no test could tell of."""
    return pytest.TestReport(nodeid, (nodeid.partition("::")[0], None, nodeid), {}, "failed", text, "call")
