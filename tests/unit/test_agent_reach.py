"""Where commands look for the agent."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

from spurproc.agent.cli.reach import Reach
from spurproc.errors import ConfigurationInvalid

UID = 12345


@pytest.fixture
def home(tmp_path: Path) -> Mapping[str, str]:
    return {"HOME": str(tmp_path), "XDG_STATE_HOME": f"{tmp_path}/states"}


def test_what_is_named_is_meant(home: Mapping[str, str]) -> None:
    assert Reach(socket_path="/a/b").path(home, UID) == "/a/b"
    assert Reach(state_dir="/a").path(home, UID) == "/a/control.sock"
    assert Reach().path({**home, "SPURD_STATE_DIR": "/v"}, UID) == "/v/control.sock"
    assert Reach().path({**home, "SPURD_SOCKET_PATH": "/s"}, UID) == "/s"
    assert Reach(state_dir="/a").path({**home, "SPURD_STATE_DIR": "/v"}, UID) == "/a/control.sock"


def test_a_name_goes_before_a_configuration_that_cannot_be_read(home: Mapping[str, str], tmp_path: Path) -> None:
    """As of another user's home, or a broken one: what is named needs none."""
    folder = tmp_path / ".config"
    folder.mkdir()
    (folder / "spurd.toml").write_text("broken")
    assert Reach(state_dir="/a").path(home, UID) == "/a/control.sock"
    with pytest.raises(ConfigurationInvalid, match=r"spurd\.toml"):
        Reach().path(home, UID)


def test_a_configuration_says_it(home: Mapping[str, str], tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text('state_dir = "/from/file"\n')
    config.chmod(0o600)
    assert Reach(config=str(config)).path(home, 0) == "/from/file/control.sock"


def test_own_agent_where_there_is_one_else_that_of_the_node(home: Mapping[str, str], tmp_path: Path) -> None:
    own = tmp_path / "states" / "spurd"
    of_node = Reach().path(home, UID)
    assert of_node != f"{own}/control.sock"
    own.mkdir(parents=True)
    (own / "control.sock").touch()
    assert Reach().path(home, UID) == f"{own}/control.sock"
    assert Reach().path(home, 0) == of_node


def test_own_agent_that_is_being_started_again_is_meant_still(home: Mapping[str, str], tmp_path: Path) -> None:
    """Its socket is gone just now, its queue is not: job 7 of the node is another job."""
    own = tmp_path / "states" / "spurd"
    own.mkdir(parents=True)
    (own / "controller.db").touch()
    assert Reach().path(home, UID) == f"{own}/control.sock"


@pytest.mark.parametrize("reach", [Reach(state_dir="{}"), Reach(socket_path="{}/control.sock")])
def test_an_agent_has_been_where_its_queue_is_or_its_socket(tmp_path: Path, reach: Reach) -> None:
    paths = [None if text is None else text.format(tmp_path) for text in (reach.state_dir, reach.socket_path)]

    def was_there() -> bool:
        return Reach(state_dir=paths[0], socket_path=paths[1]).was_there()

    path = tmp_path / "control.sock"
    path.touch()
    assert not was_there()
    path.unlink()
    assert not was_there()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    assert was_there()
    path.unlink()
    (tmp_path / "controller.db").touch()
    assert was_there()


def test_a_socket_elsewhere_is_of_the_agent_in_the_folder(tmp_path: Path) -> None:
    elsewhere = Reach(state_dir=str(tmp_path), socket_path="/nowhere/spurd.sock")
    assert (elsewhere.kept_path, elsewhere.was_there()) == ("/nowhere/spurd.sock", False)
    (tmp_path / "controller.db").touch()
    assert Reach(state_dir=str(tmp_path), socket_path="/nowhere/spurd.sock").was_there()


def test_what_was_found_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for an agent to come back asks no other one meanwhile, whose job 7 is another job."""
    reach = Reach()
    monkeypatch.setenv("SPURD_STATE_DIR", "/first")
    assert reach.kept_path == "/first/control.sock"
    monkeypatch.setenv("SPURD_STATE_DIR", "/second")
    assert reach.kept_path == "/first/control.sock"


def test_what_cannot_be_is_named(home: Mapping[str, str]) -> None:
    with pytest.raises(ConfigurationInvalid, match="--state-dir"):
        Reach(state_dir="").path(home, UID)
