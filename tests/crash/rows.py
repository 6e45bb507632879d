"""Which row of the protocol an act belongs to. An effect, or a method of the host, that stands nowhere here fails a test."""

from __future__ import annotations

import inspect

from spurproc.stepd.host import Host
from spurproc.stepd.table import Effect
from spurproc.stepd.witness import Witness

ROWS = tuple(range(1, 14))

EFFECT_ROWS: dict[Effect, int] = {
    Effect.BIND: 4,
    Effect.INHERIT: 9,
    Effect.MAKE_CGROUP: 4,
    Effect.DESCRIBE: 4,
    Effect.SAY_READY: 4,
    Effect.RECORD_HOOK_BEGUN: 10,
    Effect.RUN_HOOK: 10,
    Effect.END_HOOK: 10,
    Effect.RECORD_HOOK_COMPLETED: 10,
    Effect.SPAWN_LEADER: 6,
    Effect.HAND_OVER: 6,
    Effect.DESCRIBE_LEADER: 6,
    Effect.RECORD_GATE_OPENING: 7,
    Effect.OPEN_GATE: 7,
    Effect.RECORD_LAUNCHED: 7,
    Effect.TELL_STARTED: 7,
    Effect.LOWER: 7,
    Effect.FREEZE: 7,
    Effect.THAW: 7,
    Effect.RECORD_TERMINATING: 9,
    Effect.WALK_PLAN: 9,
    Effect.ABANDON_LEADER: 8,
    Effect.RECORD_EXIT_OBSERVED: 8,
    Effect.REAP_LEADER: 8,
    Effect.TELL_ENDED: 8,
    Effect.TELL_HELD: 9,
    Effect.RECORD_EMPTIED: 9,
    Effect.TELL_COMPLETED: 11,
    Effect.RECORD_ACKNOWLEDGED: 12,
    Effect.LEAVE: 11,
}

HOST_ACTS: dict[str, int] = {
    "Host._launch": 3,
    "Host._fork": 3,
    "Host._recorded": 9,
    "Host._lost": 9,
    "Host._take_over": 8,
    "Host._adopt": 8,
    "Host._watch_elsewhere": 8,
    "Host._host_gone": 8,
    "Witness.watch_supervisor": 3,
    "Witness._receive_one": 6,
    "Witness._supervisor_ended": 8,
    "Witness.await_leader": 8,
    "Witness._leader_ended": 8,
    "Witness.conclude": 8,
    "Witness._conclude_locked": 8,
}
HOST_QUIET: dict[str, str] = {
    "Host.listen": "before it serves any step",
    "Host.run": "before it serves any step",
    "Host._take_request": "does nothing itself: _launch and _take_over do",
    "Host._received_step": "wraps a descriptor",
    "Host._check_fresh": "looks",
    "Host._tell_waiting": "an answer that is lost with either end",
    "Host._peer_left": "forgets a peer",
    "Host._retire": "of the host, not of a step",
    "Host._watch": "makes an object",
    "Host._retire_others": "of hosts, not of a step",
    "Host._adopt_all": "does nothing itself: _adopt does",
    "Host._falls_to_us": "looks, and writes nothing",
    "Host._look_idle": "of the host, not of a step",
    "Host._signalled": "does nothing itself",
    "Host._reap_orphans": "of nobody's step: none of its own is reaped here",
    "Witness.may_wait_for": "looks",
    "Witness.hold_leader": "keeps a descriptor",
    "Witness._receive": "does nothing itself: _receive_one does",
    "Witness._take_leader": "keeps what _receive_one has received",
    "Witness._hold_child": "keeps a descriptor: await_leader has it opened",
    "Witness.rests": "sets a timer",
    "Witness.try_again": "sets a timer",
    "Witness._end": "looks",
    "Witness._trimmed": "looks",
    "Witness._oom_kills": "looks",
    "Witness.close": "lets go of descriptors",
}

FORK_ACTS: dict[str, int] = {"_own_lock": 3, "_supervise": 3}
"""Of spurproc.stepd.forking, in the new supervisor, before it has a table."""

LAUNCHER_ACTS: dict[str, int] = {
    "client.launch._publish": 1,
    "client.launch._first_lock": 1,
    "client.launch._write_launch": 1,
    "client.launch._renamed": 2,
    "client.launch._send": 3,
    "client.launch._await_ready": 4,
    "client.launch._start": 5,
    "client.withdrawal.withdraw_unsent": 3,
    "client.withdrawal.withdrawn": 4,
    "client.host_link:HostLink.send": 3,
    "core.durable.private_folder:PrivateFolder.sync_above": 2,
    "client.step:Step.start": 5,
    "client.step:Step.wait": 11,
    "client.step:Step.acknowledge": 12,
    "client.acknowledging._under_lock": 12,
    "client.removal.retire_folder": 13,
    "client.removal.delete_folder": 13,
    "client.removal.remove_cgroups": 13,
}
"""Of spurproc: the module, the class where there is one, and the function."""

ROW_OF: dict[str, int] = {effect.value: row for effect, row in EFFECT_ROWS.items()} | HOST_ACTS | FORK_ACTS | LAUNCHER_ACTS


def unplaced() -> list[str]:
    """Effects, and methods of the host, of which nobody has said where they belong."""
    methods = [
        f"{owner.__name__}.{name}"
        for owner in (Host, Witness)
        for name, value in vars(owner).items()
        if inspect.isfunction(value) and not name.startswith("__")
    ]
    effects = [effect.name for effect in Effect if effect not in EFFECT_ROWS]
    return effects + [name for name in methods if (name in HOST_ACTS) is (name in HOST_QUIET)]
