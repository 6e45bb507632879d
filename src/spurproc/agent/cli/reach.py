"""Where the agent is reached: as it is named, as its configuration has it, or wherever there is one."""

from __future__ import annotations

import functools
import os
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from spurproc.agent.cli.connection import AgentClient
from spurproc.agent.configuration.configuration import Configuration
from spurproc.agent.configuration.fields import FIELD_OF_NAME
from spurproc.agent.configuration.kinds import AbsolutePath
from spurproc.agent.configuration.loading import CONFIG_ENVIRONMENT, load_configuration
from spurproc.agent.node.state_dir import CONTROLLER_DATABASE_NAME, SOCKET_NAME
from spurproc.errors import ConfigurationInvalid

__all__ = ["Reach", "agent_options"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Place:
    """At least one of both is known."""

    state_dir: str | None
    socket_path: str | None = None

    @property
    def socket(self) -> str:
        return self.socket_path or f"{self.state_dir}/{SOCKET_NAME}"

    @property
    def was_there(self) -> bool:
        """A socket that nobody has removed, or the queue that an agent leaves behind."""
        with suppress(OSError):
            if stat.S_ISSOCK(os.stat(self.socket).st_mode):
                return True
        folder = self.state_dir or os.path.dirname(self.socket)
        return os.path.isfile(f"{folder}/{CONTROLLER_DATABASE_NAME}")


@dataclass(frozen=True, kw_only=True)
class Reach:
    """What was said of it on the command line."""

    state_dir: str | None = None
    socket_path: str | None = None
    config: str | None = None

    def path(self, environment: Mapping[str, str] = os.environ, uid: int | None = None) -> str:
        """Of its socket. Raises ConfigurationInvalid.

        What is named is meant, whatever a configuration says: by an option, else by a variable. Without a name, root means the
        node's; others mean their own where its socket stands, and the node's where it does not. Where neither does, their own if
        there was one: it is being started again.
        """
        return self._place(environment, os.geteuid() if uid is None else uid).socket

    def _place(self, environment: Mapping[str, str], uid: int) -> _Place:
        named = self._named(environment)
        if named is not None:
            return named
        chosen = self.config or environment.get(CONFIG_ENVIRONMENT)
        own = _place_of(load_configuration({}, file=self.config, environment=environment, uid=uid).configuration)
        if chosen or uid == 0 or os.path.lexists(own.socket):
            return own
        of_node = _place_of_node()
        return own if own.was_there and not os.path.lexists(of_node.socket) else of_node

    def _named(self, environment: Mapping[str, str]) -> _Place | None:
        typed = {"socket_path": self.socket_path, "state_dir": self.state_dir}
        places = {name: f"flag {FIELD_OF_NAME[name].flag}" for name in typed}
        if self.config is None and not any(text is not None for text in typed.values()):
            variables = {name: FIELD_OF_NAME[name].variable for name in typed}
            typed = {name: None if (text := environment.get(variables[name])) == "auto" else text for name in typed}
            places = {name: f"variable {variable}" for name, variable in variables.items()}
        if all(text is None for text in typed.values()):
            return None
        paths = {name: _named_path(name, text, places[name]) for name, text in typed.items() if text is not None}
        return _Place(paths.get("state_dir"), paths.get("socket_path"))

    @functools.cached_property
    def kept_path(self) -> str:
        """The path as it was found first: who asks again means the same agent, whether or not it is there just now."""
        return self._kept.socket

    @functools.cached_property
    def _kept(self) -> _Place:
        return self._place(os.environ, os.geteuid())

    def was_there(self) -> bool:
        """Whether an agent has been there before, for as much as can be seen."""
        return self._kept.was_there

    def connect(self) -> AgentClient:
        """A connection; the caller owns it."""
        return AgentClient.connect(self.kept_path)


def _named_path(name: str, text: str, place: str) -> str:
    try:
        path: str = AbsolutePath().from_text(text)
    except ValueError as error:
        raise ConfigurationInvalid([f"cannot use {name} ({place}): {error}"]) from None
    return path


def _place_of_node() -> _Place:
    """As the node's configuration has it, where everybody may read that."""
    try:
        return _place_of(load_configuration({}, environment={}, uid=0).configuration)
    except ConfigurationInvalid:
        return _Place(FIELD_OF_NAME["state_dir"].default_text({}, 0))


def _place_of(configuration: Configuration) -> _Place:
    return _Place(configuration.state_dir, configuration.socket_path)


def agent_options(function: Callable[..., T]) -> Callable[..., T]:
    """Gives a command the options that name the agent, and as its first argument what they say."""

    @functools.wraps(function)
    def call(*args: Any, state_dir: str | None, socket_path: str | None, config: str | None, **kwargs: Any) -> T:
        return function(Reach(state_dir=state_dir, socket_path=socket_path, config=config), *args, **kwargs)

    for option in (
        click.option("--config", metavar="FILE", help="The agent's configuration, to find it by."),
        click.option("--socket", "--socket-path", "socket_path", metavar="PATH", help="The agent's socket."),
        click.option("--state-dir", metavar="DIR", help="The agent's state folder."),
    ):
        call = option(call)
    return call
