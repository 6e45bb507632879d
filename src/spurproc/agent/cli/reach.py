"""Where the agent is reached: as it is named, as its configuration has it, or wherever there is one."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from spurproc.agent.cli.connection import AgentClient
from spurproc.agent.configuration.configuration import Configuration
from spurproc.agent.configuration.fields import FIELD_OF_NAME
from spurproc.agent.configuration.kinds import AbsolutePath
from spurproc.agent.configuration.loading import CONFIG_ENVIRONMENT, load_configuration
from spurproc.agent.node.state_dir import SOCKET_NAME
from spurproc.errors import ConfigurationInvalid

__all__ = ["Reach", "agent_options"]

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Reach:
    """What was said of it on the command line."""

    state_dir: str | None = None
    socket_path: str | None = None
    config: str | None = None

    def path(self, environment: Mapping[str, str] = os.environ, uid: int | None = None) -> str:
        """Of its socket. Raises ConfigurationInvalid.

        What is named is meant, whatever a configuration says: by an option, else by a variable. Without a name, root means the
        node's; others mean their own where its socket stands, and the node's where it does not.
        """
        uid = os.geteuid() if uid is None else uid
        named = self._named(environment)
        if named is not None:
            return named
        chosen = self.config or environment.get(CONFIG_ENVIRONMENT)
        own = _socket_of(load_configuration({}, file=self.config, environment=environment, uid=uid).configuration)
        return own if chosen or uid == 0 or os.path.lexists(own) else _path_of_node()

    def _named(self, environment: Mapping[str, str]) -> str | None:
        for name, text in (("socket_path", self.socket_path), ("state_dir", self.state_dir)):
            if text is not None:
                return _named_path(name, text, f"flag {FIELD_OF_NAME[name].flag}")
        if self.config is not None:
            return None
        for name in ("socket_path", "state_dir"):
            text = environment.get(FIELD_OF_NAME[name].variable)
            if text is not None and text != "auto":
                return _named_path(name, text, f"variable {FIELD_OF_NAME[name].variable}")
        return None

    @functools.cached_property
    def kept_path(self) -> str:
        """The path as it was found first: who asks again means the same agent, whether or not it is there just now."""
        return self.path()

    def connect(self) -> AgentClient:
        """A connection; the caller owns it."""
        return AgentClient.connect(self.kept_path)


def _named_path(name: str, text: str, place: str) -> str:
    try:
        path: str = AbsolutePath().from_text(text)
    except ValueError as error:
        raise ConfigurationInvalid([f"cannot use {name} ({place}): {error}"]) from None
    return path if name == "socket_path" else f"{path}/{SOCKET_NAME}"


def _path_of_node() -> str:
    """As the node's configuration has it, where everybody may read that."""
    try:
        return _socket_of(load_configuration({}, environment={}, uid=0).configuration)
    except ConfigurationInvalid:
        return f"{FIELD_OF_NAME['state_dir'].default_text({}, 0)}/{SOCKET_NAME}"


def _socket_of(configuration: Configuration) -> str:
    return configuration.socket_path or f"{configuration.state_dir}/{SOCKET_NAME}"


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
