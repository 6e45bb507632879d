"""The page of the agent's settings is made from their table, and what it shows as an example can be read."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from spurproc.agent.configuration.fields import FIELDS
from spurproc.agent.configuration.loading import load_configuration
from tests.meta.repository import ROOT

PAGE = (ROOT / "docs/reference/configuration.md").read_text(encoding="utf-8")


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The extension that lists them."""
    monkeypatch.syspath_prepend(str(ROOT / "docs/_extensions"))
    yield import_module("agent_settings")
    sys.modules.pop("agent_settings", None)


def test_every_setting_is_listed_with_all_its_ways(drawn: ModuleType) -> None:
    """Once, with what it means and what it is without being given."""
    text = drawn.settings_text()
    assert "```{agent-settings}\n```" in PAGE
    assert re.findall(r"^`(\w+)`$", text, re.MULTILINE) == [field.name for field in FIELDS]
    for field in FIELDS:
        assert f"`{field.flag}`, `{field.variable}`" in text
        assert field.help in text
    assert "Default: the host name." in text
    assert "Default: empty." in text
    assert "Default: `10`." in text


def test_the_example_can_be_read(tmp_path: Path) -> None:
    """As it stands there, but for the programs that its node has, and this one need not have."""
    (example,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "spurd.toml").write_text(example)
    loaded = load_configuration({}, file=str(tmp_path / "spurd.toml"), environment={"HOME": "/nonexistent"})
    assert loaded.configuration.node_name == "n17"
    assert [warning for warning in loaded.warnings if "is no program that can be run" not in warning] == []
