"""What is played with a job, and at which places of it the agent is struck.

A scene asks whoever is there, so that it goes on over any crash; what it leads to does not depend on where that was.
"""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from spurproc.agent.attempts.effect import Effect
from spurproc.agent.resources.request import ResourceRequest
from tests.agent_crash.places import OF_A_LAUNCH
from tests.agent_crash.stage import FIRST_GPU, SECOND_GPU, Stage
from tests.agents import step_of
from tests.fifo import Gate
from tests.steps import WAIT_S

NEVER_RAN = "not started: ended before exec at stage NONE"


@dataclass(frozen=True, slots=True)
class Scene:
    """`at_start`: it is struck from the moment on when an agent starts in it. `places`: each is reached then, once at least.

    `alone`: on a node where nothing else runs.
    """

    act: Callable[[Stage], None]
    places: tuple[str, ...]
    at_start: bool = False
    alone: bool = False


def _running(stage: Stage, code: int, while_queued: Callable[[], object] | None = None) -> tuple[int, Gate]:
    """A job that runs until its gate is opened, and exits with that code then; and what is done while it is in the queue."""
    gate = stage.gate()
    if while_queued is not None:
        stage.ask("drain")
    job = stage.submit(f"read x <{gate.path}; exit {code}")
    if while_queued is not None:
        while_queued()
        stage.ask("undrain")
    stage.ask(f"until {job}.1 running")
    return job, gate


def _ends(stage: Stage) -> None:
    """A job that runs and ends, with a script and a scratch folder, prolog and epilog."""
    job = stage.submit("exit 7")
    stage.await_(job, "exited 7")


def _waits(stage: Stage) -> None:
    """An agent dies while a job runs."""
    job, gate = _running(stage, 4)
    stage.restart()
    gate.open()
    stage.await_(job, "exited 4")


def _ends_meanwhile(stage: Stage) -> None:
    """It ends while no agent is there, and the next one finds that."""
    job, gate = _running(stage, 5)

    def end() -> None:
        gate.open()
        stage.agent.steps_ended(job)

    stage.restart(end)
    stage.await_(job, "exited 5")


def _cancelled(stage: Stage) -> None:
    """It is told to end, and does."""
    told, gate = stage.told(), stage.gate()
    job = stage.submit(f"echo >{told.path}; read x <{gate.path}")
    stage.ask(f"until {job}.1 running")
    told.line()
    stage.ask(f"cancel {job}")
    stage.await_(job, "killed by SIGTERM", cancelled=True)


def _cancelled_in_the_queue(stage: Stage) -> None:
    """It never runs."""
    stage.ask("drain")
    job = stage.submit("exit 1")
    stage.ask(f"cancel {job}")
    stage.ask("undrain")
    stage.await_(job, "not started: ended before exec at stage QUEUE", runs=(0,), cancelled=True)


def _suspended(stage: Stage) -> None:
    """It stands still, and then goes on."""
    job, gate = _running(stage, 6)
    stage.agent.until_executed(job)
    stage.ask(f"suspend {job}.1")
    stage.ask(f"until {job}.1 suspended")
    stage.ask(f"resume {job}.1")
    stage.ask(f"until {job}.1 running")
    gate.open()
    stage.await_(job, "exited 6")


def _requeued(stage: Stage) -> None:
    """Its first attempt ends, and a second is run."""
    told, gate = stage.told(), stage.gate()
    job = stage.submit(f"test $SPURD_RUN_ATTEMPT = 2 || echo >{told.path}; read x <{gate.path}; exit 8")
    stage.ask(f"until {job}.1 running")
    told.line()
    _ask_once(stage, f"requeue {job}", job)
    stage.ask(f"until {job}.1 none")
    gate.open()
    stage.await_(job, "killed by SIGTERM", "exited 8", runs=(1, 1))


def _ask_once(stage: Stage, line: str, job: int) -> None:
    """Who asked and was not answered looks what came of it, before he asks again: it is not the same twice."""
    try:
        stage.agent.ask(line)
    except (ConnectionError, FileNotFoundError):
        if stage.ask(f"job {job}")[1:] == [1, False]:
            stage.ask(line)


def _prolog_fails(stage: Stage) -> None:
    """The node drains, and the job never runs."""
    (stage.facts / "prolog-fails").touch()
    job = stage.submit("exit 1")
    stage.await_(job, NEVER_RAN, runs=(0,), hooks=(1,))
    assert stage.ask("drains") == [f"the prolog of attempt {job}.1 failed: exited 1"]
    (stage.facts / "prolog-fails").unlink()
    stage.ask("undrain")


def _epilog_fails(stage: Stage) -> None:
    """The node drains; the job has run."""
    (stage.facts / "epilog-fails").touch()
    job = stage.submit("exit 2")
    stage.await_(job, "exited 2")
    assert stage.ask("drains") == [f"the epilog of attempt {job}.1 failed: exited 1"]
    (stage.facts / "epilog-fails").unlink()
    stage.ask("undrain")


def _refused(stage: Stage) -> None:
    """Its report is not taken, until somebody has mended that."""
    refused, gate = stage.path / "refused", stage.gate()
    job = stage.submit(f"read x <{gate.path}; exit 9")
    refused.write_text(f"{job}.1\n")
    gate.open()
    stage.ask(f"refused {job}.1")
    refused.unlink()
    stage.await_(job, "exited 9")


def _held(stage: Stage) -> None:
    """Its records cannot be read for a while: it is held, and nothing becomes of it meanwhile."""
    job, gate = _running(stage, 3)
    record = stage.agent.path / "steps" / "runtime" / str(step_of(job)) / "launch.json"
    content = record.read_bytes()
    stage.restart(lambda: record.write_bytes(b"{"))
    stage.ask(f"until {job}.1 held")
    assert f"{job}.1" in stage.ask("claims")
    stage.restart(lambda: record.write_bytes(content))
    gate.open()
    stage.await_(job, "exited 3")


def _found_without_a_row(stage: Stage) -> None:
    """Both databases are restored, and are of a time when it was in the queue."""
    backup = stage.path / "backup"
    job, gate = _running(stage, 4, lambda: stage.copy_databases(backup))
    stage.restart(lambda: stage.restore_databases(backup))
    stage.ask("undrain")
    gate.open()
    stage.await_(job, "exited 4")


def _held_without_a_row(stage: Stage) -> None:
    """As before, and its own records cannot be read either when the agent starts."""
    backup = stage.path / "backup"
    job, gate = _running(stage, 5, lambda: stage.copy_databases(backup))
    record = stage.agent.path / "steps" / "runtime" / str(step_of(job)) / "launch.json"
    good = record.with_name("good")
    good.write_bytes(record.read_bytes())

    def lose() -> None:
        stage.restore_databases(backup)
        record.write_bytes(b"{")

    stage.restart(lose)
    stage.ask("undrain")
    stage.ask(f"until {job}.1 held")
    good.replace(record)
    gate.open()
    stage.await_(job, "exited 5")


def _lost(stage: Stage) -> None:
    """Its folder is removed, its supervisor and its host are killed, and its tree lives on until it is cancelled."""
    told, gate = stage.told(), stage.gate()
    job = stage.submit(f"echo >{told.path}; read x <{gate.path}")
    stage.ask(f"until {job}.1 running")
    told.line()

    def lose() -> None:
        descriptor = stage.agent.steps.descriptor_of(job, 1, step_of(job).step_id)
        stage.agent.steps.kill(descriptor.host, descriptor.supervisor)
        shutil.rmtree(stage.agent.path / "steps" / "runtime" / str(step_of(job)))

    stage.restart(lose)
    stage.ask(f"until {job}.1 held")
    stage.ask(f"cancel {job}")
    stage.await_(job, "unknown", cancelled=True)


def _queue_lost(stage: Stage) -> None:
    """The queue is begun anew while a job runs: it knows it again, and how it ends."""
    job, gate = _running(stage, 5)

    def lose() -> None:
        for file in stage.agent.path.glob("controller.db*"):
            file.unlink()

    stage.restart(lose)
    gate.open()
    stage.await_(job, "exited 5")


def _unreadable_in_the_queue(stage: Stage) -> None:
    """It is held there, and stops no other."""
    stage.ask("drain")
    job = stage.submit("exit 1")

    def damage() -> None:
        with closing(sqlite3.connect(stage.agent.path / "controller.db")) as database:
            database.execute("UPDATE jobs SET spec = x'7b' WHERE job_id = ?", (job,))
            database.commit()

    stage.restart(damage)
    stage.ask("undrain")
    other = stage.submit("exit 2")
    stage.await_(other, "exited 2")
    assert stage.ask(f"job {job}")[0] == "held"


def _gpu_vanishes(stage: Stage) -> None:
    """The node has one less, twice alike: that counts; and then it is back."""
    stage.tree.take_out(FIRST_GPU)
    _counted(stage, [SECOND_GPU])
    job = stage.submit("exit 7", resources=ResourceRequest(gpus=1))
    stage.await_(job, "exited 7")
    stage.tree.put_back(FIRST_GPU)
    _counted(stage, [FIRST_GPU, SECOND_GPU])


def _counted(stage: Stage, gpus: list[str]) -> None:
    """Two readings and one more for each start."""
    readings = [stage.ask("inventory")[1] for _ in range(4)]
    assert readings[-1] == gpus, readings


def _never_got(stage: Stage) -> None:
    """It was dispatched to a node that had no room for it any more: it goes back into the queue."""
    stage.ask("drain")
    job = stage.submit("exit 3")

    def dispatch() -> None:
        with closing(sqlite3.connect(stage.agent.path / "controller.db")) as database:
            database.execute("UPDATE jobs SET state = 'dispatched' WHERE job_id = ?", (job,))
            database.execute("INSERT INTO attempts (job_id, run_attempt, dispatched_at) VALUES (?, 1, 0)", (job,))
            database.commit()

    stage.restart(dispatch)
    deadline = time.monotonic() + WAIT_S
    while stage.ask(f"job {job}")[0] != "queued":
        assert time.monotonic() < deadline, "it is not taken back"
    stage.ask("undrain")
    stage.await_(job, "exited 3")


def _effects(*effects: Effect) -> tuple[str, ...]:
    return tuple(effect.name for effect in effects)


def _of(where: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{where}.{name}" for name in names)


_OWED = _effects(
    Effect.RECORD_END,
    Effect.OFFER_REPORT,
    Effect.RUN_EPILOG,
    Effect.RECORD_EPILOG,
    Effect.RECORD_RELEASED,
    Effect.RELEASE,
    Effect.RECORD_REPORTED,
    Effect.REMOVE_STEP,
    Effect.REMOVE_HOOKS,
    Effect.REMOVE_SPOOL,
    Effect.RECORD_FORGOTTEN,
    Effect.LEAVE,
)
_QUEUE, _ENDING = "controller.local.queue", "controller.local.ending"
_ENDS = (
    *_of(_QUEUE, "submit", "take_number", "dispatch"),
    *_of("attempts.dispatch:Attempts", "take_on", "begin"),
    "resources.table:ResourceTable.allocate",
    "store.attempts.accept",
    *_effects(Effect.RUN_PROLOG, Effect.PREPARE, Effect.LAUNCH, Effect.WATCH),
    *_of("attempts.hooks", "_launched", "_emptied"),
    "jobs.spool.write_script",
    "jobs.scratch.make_scratch",
    "attempts.step.launch_step",
    *OF_A_LAUNCH,
    *_OWED,
    *_of("store.attempts", "note_launch", "set_state", "record_end", "discharge", "forget"),
    *_of("store.node_values", "count_report", "write_reports"),
    f"{_ENDING}.report",
    "controller.local.history.forget",
    "store.mark:MarkFile.raise_to",
    "resources.table:ResourceTable.release",
    *_of("attempts.step", "remove_step", "remove_folders"),
)
_STARTS = (
    "attempts.reconcile.look",
    *_of("attempts.claims", "restore", "displace"),
    "resources.table:ResourceTable.restore",
    *_of("controller.local.outdated", "take_over", "settle_outdated"),
    *_of(_QUEUE, "raise_floor", "take_number"),
)
SCENES: dict[str, Scene] = {
    "ends": Scene(_ends, _ENDS),
    "waits": Scene(_waits, (*_STARTS, "attempts.dispatch:Attempts.begin", Effect.WATCH.name, *_OWED), at_start=True),
    "ends meanwhile": Scene(_ends_meanwhile, (*_STARTS, Effect.WATCH.name, *_OWED), at_start=True),
    "cancelled": Scene(
        _cancelled,
        (
            f"{_ENDING}.cancel",
            "store.attempts.intend_cancel",
            *_effects(Effect.RECORD_CANCEL, Effect.TERMINATE),
            *_OWED,
        ),
    ),
    "cancelled in the queue": Scene(
        _cancelled_in_the_queue,
        (*_of("store.drains", "add_drain", "lift_drain"), f"{_QUEUE}.end_in_queue", f"{_ENDING}.cancel"),
    ),
    "suspended": Scene(_suspended, (Effect.RECORD_STATE.name, "store.attempts.set_state", Effect.RECORD_END.name)),
    "requeued": Scene(
        _requeued,
        (
            f"{_ENDING}.requeue",
            f"{_QUEUE}.put_back",
            f"{_ENDING}.report",
            *_effects(Effect.RECORD_CANCEL, Effect.TERMINATE),
            *_OWED,
        ),
    ),
    "prolog fails": Scene(
        _prolog_fails,
        (*_effects(Effect.RECORD_PROLOG_FAILED, Effect.RECORD_END, Effect.RUN_EPILOG), "store.drains.add_drain"),
    ),
    "epilog fails": Scene(_epilog_fails, (Effect.RECORD_EPILOG_FAILED.name, "store.drains.add_drain")),
    "refused": Scene(
        _refused,
        (*_effects(Effect.RECORD_REFUSED, Effect.OFFER_REPORT, Effect.RECORD_REPORTED), "store.attempts.note_refusal"),
    ),
    "held": Scene(_held, (Effect.RECORD_HELD.name, "store.attempts.hold", "attempts.claims.restore"), at_start=True),
    "found without a row": Scene(
        _found_without_a_row,
        (*_STARTS, "store.attempts.accept", Effect.WATCH.name, *_OWED),
        at_start=True,
    ),
    "held without a row": Scene(
        _held_without_a_row, ("store.attempts.take_up", *_effects(Effect.RECORD_END, Effect.RELEASE)), at_start=True
    ),
    "lost": Scene(
        _lost,
        ("attempts.fencing.fence_lost", *_effects(Effect.RECORD_CANCEL, Effect.TERMINATE, Effect.RECORD_END)),
        at_start=True,
    ),
    "queue lost": Scene(_queue_lost, ("controller.local.found.take_up",), at_start=True),
    "unreadable in the queue": Scene(_unreadable_in_the_queue, (f"{_QUEUE}.hold",), at_start=True),
    "never got": Scene(_never_got, (f"{_QUEUE}.take_back",), at_start=True),
    "a GPU vanishes": Scene(
        _gpu_vanishes, ("resources.table:ResourceTable.apply_inventory", "store.node_values.write_value"), alone=True
    ),
}
