"""One run of a scene: a launcher, a host and a supervisor of its own, somebody who strikes, and a look at what is left of it."""

from __future__ import annotations

import os
import resource
import secrets
import select
import signal
import stat
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from spurproc.client.host_link import HostLink
from spurproc.client.step import Step
from spurproc.core.cgroup.root import find_cgroup_root
from spurproc.core.cgroup.step import make_hook, make_step
from spurproc.core.exit_info import ExitInfo
from spurproc.errors import AlreadyGone, SpurprocError, WaitTimeout
from spurproc.proto.host_folder import open_host_folder
from spurproc.proto.messages import Retire
from spurproc.proto.step_folder import StateFolder
from spurproc.proto.step_state import StepState
from spurproc.stepd.host_socket import tell_host
from tests import cgroup_folder
from tests.bystander import Bystander
from tests.crash.child import Child
from tests.crash.conductor import Conductor, Rule, Stand, let_go
from tests.crash.points import HOST, LAUNCHER, SUPERVISOR, VARIABLE, install_launcher
from tests.crash.scenes import KILL, SCENES, WITHIN_S, Scene, Stage, collect
from tests.crash.zygote import write_program

ROOT = Path(__file__).resolve().parents[2]
_PIPES = ("go", "held", "up")


class Theatre:
    """Stands for a session of tests: the conductor, the zygote of hosts, and a bystander who must not feel anything."""

    def __init__(self, folder: Path) -> None:
        self.conductor = Conductor(f"spurproc-crash-{secrets.token_hex(8)}")
        self._jobs = 0
        self._traces: dict[str, list[Stand]] = {}
        self._folder = folder
        self.idle_fds = 0
        """Of a host without steps."""
        os.environ[VARIABLE] = self.conductor.name
        os.environ["SPURPROC_TEST_CGROUP_MOUNT"] = str(cgroup_folder.mount())
        os.environ["SPURPROC_STEPD"] = str(write_program(folder))
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "tests.crash.zygote", str(folder)]
        self._zygote = subprocess.Popen(command, env=environment, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        # Held open, so that the zygote waits for the next host for as long as we live.
        self._ask = os.open(folder / "ask", os.O_RDWR | os.O_CLOEXEC)
        assert self._zygote.stdout is not None
        assert self._zygote.stdout.readline() == b"ready\n"
        self.bystander = Bystander()

    def next_job(self) -> int:
        """No number is used twice, so that nobody is taken for another."""
        self._jobs += 1
        return self._jobs

    def traces(self) -> dict[str, list[Stand]]:
        """What each scene passes when nobody is struck but by its plan."""
        if not self._traces:
            state = self._folder / "dry"
            self._trace("plain", SCENES["plain"], state)  # folders that stand for all steps are there afterwards
            for name, scene in SCENES.items():
                self._traces[name] = self._trace(name, scene, state)
            clear(self, state, by_force=False)
        return self._traces

    def _trace(self, name: str, scene: Scene, state: Path) -> list[Stand]:
        run = Run(self, scene, state)
        with run.played(let_go) as launcher:
            self.conductor.rule = struck_by_plan(run)
            assert run.until(launcher), f"{name}: {run.trail()}"
            assert str(launcher.answer).startswith(scene.outcome), f"{name}: {launcher.answer} {run.trail()}"
            assert self.conductor.until(lambda: not self.conductor.living(SUPERVISOR, run.step), WITHIN_S), name
            if self.conductor.until(lambda: _has_let_go(self.conductor, run.step), WITHIN_S) and name == "plain":
                self.idle_fds = len(os.listdir(f"/proc/{self.conductor.living(HOST)[-1].pid}/fd"))
            return [stand for stand in self.conductor.passed if stand.step == run.step]

    def close(self) -> None:
        """The session is over."""
        self.bystander.close()
        os.close(self._ask)
        self._zygote.kill()
        self._zygote.wait()
        if self._zygote.stdout is not None:
            self._zygote.stdout.close()
        self.conductor.close()
        for name in (VARIABLE, "SPURPROC_TEST_CGROUP_MOUNT", "SPURPROC_STEPD"):
            del os.environ[name]


def _has_let_go(conductor: Conductor, step: str) -> bool:
    """Whether no host watches over the step, and none is in the middle of an act of it, as far as they have said."""
    acts = [(stand.pid, stand.place) for stand in conductor.passed if stand.step == step and stand.kind == "act"]
    said = {(place.point, place.when) for _, place in acts}
    if ("Witness.watch_supervisor", "after") in said and ("Host._lost", "after") not in said:
        return False
    living = {host.pid for host in conductor.living(HOST)}
    begun = Counter(place.when for pid, place in acts if pid in living)
    return begun["before"] == begun["after"]


class Run:
    """One scene in one state folder. What happens to whom is the conductor's rule."""

    def __init__(self, theatre: Theatre, scene: Scene, state: Path) -> None:
        self.conductor = theatre.conductor
        self.scene = scene
        job = theatre.next_job()
        self.stage = Stage(state=state, folder=state.parent / f"{state.name}-{job}", job=job)
        self.step = str(scene.id_of(self.stage))
        self.notes: list[str] = []
        self.killed: set[str] = set()
        self._stack = ExitStack()

    @contextmanager
    def played(self, rule: Rule, watched: frozenset[str] | None = None) -> Iterator[Child]:
        """The launcher is on its way meanwhile. `watched`: as the conductor's, besides what the scene itself needs."""
        self.stage.folder.mkdir()
        with self._stack:
            for name in _PIPES:
                os.mkfifo(self.stage.folder / name)
                self._stack.callback(os.close, os.open(self.stage.folder / name, os.O_RDWR | os.O_CLOEXEC))
            os.mkfifo(self.stage.folder / "nobody")
            scene = self.scene
            also = frozenset({scene.struck, scene.then, scene.lets_go_after})
            self.conductor.begin(rule, None if watched is None else watched | also)
            launcher = Child(self._launch)
            self._stack.callback(launcher.close)
            try:
                yield launcher
            finally:
                self.conductor.rule = let_go

    def _launch(self) -> str:
        install_launcher(self.step)
        return self.scene.run(self.stage)

    def until(self, child: Child, *or_fact: Callable[[], bool]) -> bool:
        """Conduct until the child has said all, or one of the facts holds."""
        return self.conductor.until(lambda: told(child) or any(fact() for fact in or_fact), WITHIN_S, child.fileno())

    def kill(self, roles: Iterable[str]) -> set[str]:
        """Those that there are, the host before the supervisor: it sees nothing of that end. Back once they have ended."""
        killed = []
        for role in (LAUNCHER, HOST, SUPERVISOR):
            for peer in self.conductor.living(role, "" if role == HOST else self.step) if role in roles else []:
                signal.pidfd_send_signal(peer.pidfd, signal.SIGKILL)
                killed.append(peer)
        for peer in killed:
            poll = select.poll()
            poll.register(peer.pidfd, select.POLLIN)
            assert poll.poll(WITHIN_S * 1000), f"the {peer.role} survives SIGKILL"
        roles = {peer.role for peer in killed}
        self.killed |= roles
        return roles

    def lift(self) -> None:
        """Whoever had no descriptors left has them again: one that rests meanwhile does not come to any place."""
        for peer in self.conductor.peers:
            if not peer.ended:
                with suppress(ProcessLookupError):  # it ends just now
                    _, hard = resource.prlimit(peer.pid, resource.RLIMIT_NOFILE)
                    resource.prlimit(peer.pid, resource.RLIMIT_NOFILE, (hard, hard))

    def resolve(self) -> dict[str, Any]:
        """What a fresh client makes of it. Everybody who is left, and whom it starts, goes on unhindered."""
        client = Child(self._resolve)
        try:
            if not self.until(client):
                return {"raised": "nothing", "trace": "", "why": f"the client does not come back within {WITHIN_S} s"}
            answer: dict[str, Any] = client.answer
        finally:
            client.close()
        return answer

    def _resolve(self) -> dict[str, Any]:
        try:
            return self._resolved(Step.open(self.stage.state, self.scene.id_of(self.stage)))
        except AlreadyGone as error:
            return {"kind": None, "why": str(error)}

    def _resolved(self, step: Step) -> dict[str, Any]:
        for name in ("go", "held"):
            self.stage.let_go(name)
        if self.scene.ends_by_force or "kill_plan" in self.scene.spec:
            with suppress(SpurprocError):
                step.terminate(KILL)
        end = _end_of(step)
        acknowledged = False
        with suppress(SpurprocError):
            step.acknowledge()
            acknowledged = True
        return {**end.to_json(), "acknowledged": acknowledged}

    def collect(self) -> list[str]:
        """What a fresh client cannot remove."""
        client = Child(lambda: collect(self.stage.state, self.scene.id_of(self.stage)))
        try:
            if not self.until(client):
                return ["the client that removes it does not come back"]
            found: list[str] = client.answer
        finally:
            client.close()
        return found

    def trail(self) -> str:
        """The last places that were passed."""
        return "\n  ".join(["", *(str(stand.place) for stand in self.conductor.passed[-25:]), *self.notes])


def _end_of(step: Step) -> ExitInfo:
    """As who adopts it: one that stands ready is started, one that is suspended goes on."""
    for timeout_s in (0.1, 0.3, 1.0, WITHIN_S / 2):
        with suppress(WaitTimeout):
            return step.wait(timeout_s, completed=True)
        with suppress(SpurprocError):
            state = step.status().state
            if state is StepState.READY:
                step.start()
            elif state is StepState.SUSPENDED:
                step.resume()
    raise WaitTimeout(f"it is not over: {step.status()}")


def told(child: Child) -> bool:
    """Whether it has said all that it will ever say."""
    poll = select.poll()
    poll.register(child.fileno(), select.POLLIN)
    return child.told or (bool(poll.poll(0)) and child.hear())


def struck_by_plan(run: Run, otherwise: Rule = let_go) -> Rule:
    """The rule that carries out the blow that belongs to the scene itself."""
    scene = run.scene
    blows = [(scene.struck, scene.within, scene.blow), (scene.then, "", "kill supervisor")]

    def rule(stand: Stand) -> str | None:
        place = stand.place
        if stand.step == run.step and (place.point, place.when) == (scene.lets_go_after, "after"):
            run.stage.let_go()
        point, within, blow = blows[0] if blows else ("", "", "")
        here = point == place.point and place.when == "before" and within in ("", place.act)
        if not here or stand.step != run.step:
            return otherwise(stand)
        del blows[0]
        return _blow(run, blow)

    return rule


def _blow(run: Run, blow: str) -> str:
    if blow.startswith("kill "):
        run.kill(blow[5:].split("+"))
        return "go"
    if blow == "stop leader":
        with StateFolder.open(run.stage.state) as state, state.open_step(run.scene.id_of(run.stage)) as step:
            descriptor = step.descriptor()
        assert descriptor is not None
        assert descriptor.leader is not None
        with descriptor.leader.open() as leader:
            leader.send_signal(signal.SIGSTOP)
        return "go"
    return blow


def clear(theatre: Theatre, state: Path, *, by_force: bool) -> None:
    """The host of the folder ends, with its last step, and is seen to have ended. `by_force`: whatever is left of a bad run."""
    conductor = theatre.conductor
    if by_force:
        for peer in conductor.peers:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(peer.pidfd, signal.SIGKILL)
        for path in step_cgroups():
            cgroup_folder.remove(Path(path))
    elif state.exists():
        with StateFolder.open(state) as opened, open_host_folder(opened) as folder:
            tell_host(folder, Retire())
    assert conductor.until(lambda: all(peer.ended for peer in conductor.peers), WITHIN_S), "the host does not retire"
    conductor.forget_ended()
    _remove_unwritten()
    assert not (left := step_cgroups()), left


def have_host(theatre: Theatre, state: Path) -> None:
    """One that can be killed before a step has asked for one."""
    theatre.conductor.begin(let_go)
    child = Child(lambda: _reach_host(state))
    try:
        assert theatre.conductor.until(lambda: told(child), WITHIN_S, child.fileno())
    finally:
        child.close()


def _reach_host(state: Path) -> None:
    with StateFolder.open(state, create=True) as opened:
        HostLink.open(opened).close()


def _remove_unwritten() -> None:
    """As the next who makes one does, of any step: what a supervisor has left that was killed before it wrote it down."""
    root = find_cgroup_root()
    assert root is not None
    for make in (make_step, make_hook):
        with make(root, f"next-{secrets.token_hex(4)}") as cgroup:
            cgroup.remove()


def step_cgroups() -> dict[str, bool]:
    """Those of steps and hooks; whether nobody has written it down."""
    root = find_cgroup_root()
    assert root is not None
    found = {}
    for folder in (root.steps, root.hooks):
        for entry in os.scandir(folder) if os.path.isdir(folder) else []:
            if entry.is_dir():
                found[entry.path] = bool(entry.stat().st_mode & stat.S_ISVTX)
    return found
