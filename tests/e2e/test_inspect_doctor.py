"""spurproc-inspect doctor: what it finds on this host, with things taken away, and that it leaves no trace."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from spurproc.core.cgroup.root import ROOT_VARIABLE
from spurproc.core.facilities import MASK_VARIABLE, NAMES, Facilities
from spurproc.core.recorded.run import RecordedRun
from spurproc.inspect.doctor.facilities import LOST
from spurproc.inspect.doctor.limits import HELD_RUN_FDS
from spurproc.inspect.doctor.program import find_program
from spurproc.inspect.doctor.surroundings import _in_unit, _unit_of
from tests import cgroup_folder
from tests.inspect_program import PROGRAM, inspect, inspect_as, inspect_json, recorded
from tests.recording import ROOT
from tests.relatives import NOBODY

STATUSES = {"ok", "weaker", "limit", "missing", "unknown"}


def found(document: dict[str, Any], name: str, area: str | None = None) -> dict[str, Any]:
    """The one finding of that name."""
    (one,) = [each for each in document["findings"] if each["name"] == name and area in (None, each["area"])]
    assert isinstance(one, dict)
    return one


def test_every_facility_and_nothing_needed_is_missing() -> None:
    document = inspect_json("doctor")
    here = Facilities.current()
    facilities = {each["name"]: each for each in document["findings"] if each["area"] == "facility"}
    assert tuple(facilities) == NAMES
    assert {name: each["status"] == "ok" for name, each in facilities.items()} == {name: getattr(here, name) for name in NAMES}
    assert {each["status"] for each in document["findings"]} <= STATUSES
    assert all(each["source"] and each["value"] for each in document["findings"])
    assert document["needed"] == {
        "holds": here.pidfd_send_signal,
        "missing": [] if here.pidfd_send_signal else ["pidfd_send_signal"],
    }
    assert document["exit_code"] == (0 if here.pidfd_send_signal else 1)
    assert found(document, "kernel")["value"] == os.uname().release
    assert found(document, "spurproc-exec")["status"] == "ok"


@pytest.mark.parametrize("name", ["pidfs_inode", "cgroup_kill", "pidfd_send_signal"])
def test_a_facility_taken_away_says_what_is_lost(name: str) -> None:
    """Weaker, or missing where it is needed: the exit code says which."""
    mask = ",".join((name, os.environ.get(MASK_VARIABLE, "")))
    document, said = inspect_json("doctor", env={MASK_VARIABLE: mask}), inspect("doctor", env={MASK_VARIABLE: mask})
    needed = name == "pidfd_send_signal"
    lost = found(document, name)
    assert (lost["status"], lost["value"]) == ("missing" if needed else "weaker", "absent (masked)")
    assert lost["meaning"] == LOST[name]
    if needed:
        assert document["exit_code"] == said.code == 1
        assert said.out.endswith("needed and missing: pidfd_send_signal\n")
    assert LOST[name] in said.out


@pytest.mark.needs_cgroup_v2
def test_it_makes_no_cgroup(cgroup_root: Path) -> None:
    """The root that a launch would make is judged by its permissions alone, and is not there afterwards."""
    document = inspect_json("doctor", env={ROOT_VARIABLE: f"{cgroup_root}/new"})
    root = found(document, "root")
    assert (root["status"], root["value"]) == ("ok", f"{cgroup_root}/new: is not there yet and may be made")
    assert "access(2)" in root["source"]
    assert [path for path in cgroup_root.iterdir() if path.is_dir()] == []


@pytest.mark.parametrize("root", ["relative", "/tmp", "/no/such/folder", "/sys/fs/cgroup/../x"])
def test_a_root_that_was_chosen_and_cannot_be(root: str) -> None:
    """Nothing else is tried then, so it is needed."""
    document = inspect_json("doctor", env={ROOT_VARIABLE: root})
    assert document["exit_code"] == 1
    assert document["needed"]["missing"] == ["root"]
    assert ROOT_VARIABLE in found(document, "root")["meaning"]


@pytest.mark.needs_root
@pytest.mark.needs_cgroup_v2
def test_a_root_that_may_not_be_written(cgroup_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (f"{cgroup_root}/new", str(cgroup_root)):  # to be made, and there without its parts
        monkeypatch.setenv(ROOT_VARIABLE, path)
        assert found(inspect_as(NOBODY, "doctor"), "root")["status"] == "missing"
    monkeypatch.delenv(ROOT_VARIABLE)
    weaker = found(inspect_as(NOBODY, "doctor"), "root")
    assert weaker["status"] == "weaker"
    assert "DESCENDANTS" in weaker["meaning"]


@pytest.mark.needs_root
@pytest.mark.needs_cgroup_v2
def test_a_root_is_judged_as_a_launch_judges_it(cgroup_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch makes cgroups in `steps` and `supervisors`: whose `hooks` is does not matter to it."""
    for name in ("supervisors", "steps", "hooks"):
        (cgroup_root / name).mkdir()
    monkeypatch.setenv(ROOT_VARIABLE, str(cgroup_root))
    for name, status in (("supervisors", "missing"), ("steps", "ok")):
        os.chown(cgroup_root / name, NOBODY, NOBODY)
        assert found(inspect_as(NOBODY, "doctor"), "root")["status"] == status


@pytest.mark.needs_cgroup_v2
def test_limits_of_the_cgroups_above(cgroup_root: Path) -> None:
    """Each level that has one, with where it stands."""
    (cgroup_root / "cgroup.max.descendants").write_text("7")
    (cgroup_root / "below").mkdir()
    (cgroup_root / "below" / "cgroup.max.depth").write_text("3")
    document = inspect_json("doctor", env={ROOT_VARIABLE: f"{cgroup_root}/below/root"})
    descendants, depth = found(document, "cgroup.max.descendants of runs"), found(document, "cgroup.max.depth of runs")
    assert (descendants["status"], descendants["value"]) == ("limit", "7")
    assert descendants["source"] == f"{cgroup_root}/cgroup.max.descendants"
    assert (depth["value"], depth["source"]) == ("3", f"{cgroup_root}/below/cgroup.max.depth")


@pytest.mark.needs_root
@pytest.mark.needs_controller("pids")
def test_controllers_and_what_they_limit(cgroup_root: Path) -> None:
    (cgroup_root / "below").mkdir()
    cgroup_folder.enable("pids", cgroup_root)
    (cgroup_root / "below" / "pids.max").write_text("11")
    document = inspect_json("doctor", env={ROOT_VARIABLE: f"{cgroup_root}/below/root"})
    assert found(document, "pids.max of runs")["value"] == "11, now 0"
    assert "pids" in found(document, "controllers")["value"].split(", ")


def test_limits_of_this_process() -> None:
    script = 'ulimit -n 66; exec "$0" doctor --json'
    done = subprocess.run(["bash", "-c", script, str(PROGRAM)], capture_output=True, check=True)
    files = found(json.loads(done.stdout), "open files")
    assert files["status"] == "limit"
    assert files["value"].startswith("soft 66, hard ")
    assert f"about {66 // HELD_RUN_FDS} at once" in files["meaning"]


@pytest.mark.needs_cgroup_v2
def test_a_held_run_takes_as_many_descriptors_as_is_said(tmp_path: Path) -> None:
    with recorded(tmp_path / "run", "sleep", "1000") as run:
        before = len(os.listdir("/proc/self/fd"))
        with RecordedRun.open(run.folder) as again:
            again.observe()
            assert len(os.listdir("/proc/self/fd")) - before == HELD_RUN_FDS


def test_a_sandbox() -> None:
    """A seccomp filter (for a call that there is not) and no_new_privs are inherited by the program."""
    program = "import os, sys; from tests.seccomp import refuse; refuse(9999, 1); os.execv(sys.argv[1], sys.argv[1:])"
    command = ["setpriv", "--no-new-privs", sys.executable, "-c", program, str(PROGRAM), "doctor", "--json"]
    document = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=ROOT).stdout)
    assert found(document, "seccomp")["status"] == "limit"
    assert found(document, "seccomp")["value"].startswith("mode 2")
    assert (found(document, "no_new_privs")["status"], found(document, "no_new_privs")["value"]) == ("limit", "set")


@pytest.mark.own_pid_namespace(user=True)
def test_a_container() -> None:
    document = inspect_json("doctor")
    assert found(document, "pid namespace")["status"] == "limit"
    assert found(document, "user namespace")["status"] == "limit"
    assert found(document, "user namespace")["value"].startswith("0 ")


@pytest.mark.own_pid_namespace(user=True, boottime_s=1000)
def test_a_time_namespace() -> None:
    """Not the host's: said by its number."""
    assert found(inspect_json("doctor"), "time namespace")["value"] == str(os.stat("/proc/self/ns/time").st_ino)


# Process 1 of the namespace: leaves an orphan that has ended, and reaps nobody but the program.
_INIT = """
import os, subprocess, sys
ready, say = os.pipe()
if os.fork() == 0:
    if os.fork() == 0:
        os.close(say)
        os.read(ready, 1)  # the end of the file: its parent has ended too
        os._exit(0)
    os._exit(0)
os.wait()
os.close(say)
os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)  # until the orphan has ended
done = subprocess.run([sys.argv[1], "doctor", "--json"], stdout=subprocess.PIPE)
sys.stdout.write(done.stdout.decode())
"""


@pytest.mark.own_pid_namespace(user=True)
def test_an_init_that_does_not_reap() -> None:
    """Nested in a namespace of its own, where this Python is process 1."""
    command = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", sys.executable, "-c", _INIT, str(PROGRAM)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    init = found(json.loads(done.stdout), "init")
    assert init["status"] == "limit"
    assert "1 zombies of it stay" in init["meaning"]


@pytest.mark.own_pid_namespace(user=True)
def test_the_program_as_process_1() -> None:
    command = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", str(PROGRAM), "doctor", "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    assert "docker run --init" in found(json.loads(done.stdout), "init")["meaning"]


@pytest.mark.own_pid_namespace(user=True, mount=True)
def test_a_proc_of_another_namespace() -> None:
    """Without a mount of its own it shows the outer one: no identity can be taken, and doctor says the rest still."""
    command = ["unshare", "--pid", "--fork", "--kill-child", str(PROGRAM), "doctor", "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    document = json.loads(done.stdout)
    assert document["exit_code"] == done.returncode == 1
    assert "/proc" in document["needed"]["missing"]
    assert found(document, "/proc")["value"] == "shows another pid namespace"
    assert found(document, "pidfd_open")["status"] in ("ok", "weaker")


@pytest.mark.own_pid_namespace(mount=True)
def test_no_proc_at_all() -> None:
    """Nothing is claimed of what cannot be read, and the rest is said still."""
    script = 'mount -t tmpfs none /proc && exec "$0" doctor --json'
    done = subprocess.run(["unshare", "--mount", "sh", "-c", script, str(PROGRAM)], stdout=subprocess.PIPE, check=False)
    document = json.loads(done.stdout)
    assert done.returncode == 1
    assert document["needed"]["missing"] == ["/proc"]
    for area in ("host", "limit"):
        said = {each["name"]: each["status"] for each in document["findings"] if each["area"] == area}
        assert {name for name, status in said.items() if status == "ok"} <= {"kernel", "open files", "processes"}
    assert found(document, "pidfd_open")["status"] in ("ok", "weaker")


def test_the_static_program(tmp_path: Path) -> None:
    """Missing, without an execute bit, of a kind that the kernel does not know."""
    missing = find_program(str(tmp_path / "none"))
    assert (missing.status.value, missing.value.partition(": ")[2]) == (
        "missing",
        "No such file or directory; the package was built without it",
    )
    (tmp_path / "plain").write_bytes(b"\x7fELF")
    assert "no execute bit" in find_program(str(tmp_path / "plain")).value
    (tmp_path / "plain").chmod(0o755)
    assert "Exec format error" in find_program(str(tmp_path / "plain")).value


@pytest.mark.parametrize(("line", "how"), [("kill -ILL $$", "was killed by signal 4"), ("exit 0", "exited with 0")])
def test_a_static_program_that_does_not_work(tmp_path: Path, line: str, how: str) -> None:
    """It can be started, and that is all."""
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\n{line}\n", encoding="ascii")
    program.chmod(0o755)
    said = find_program(str(program))
    assert (said.status.value, said.value) == ("missing", f"{program}: does not work here, it {how}")


@pytest.mark.own_pid_namespace(mount=True)
def test_the_static_program_on_noexec(tmp_path: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "noexec", "none", str(tmp_path)], check=True)
    with suppress(OSError):
        (tmp_path / "program").write_bytes(Path("/bin/true").read_bytes())
    (tmp_path / "program").chmod(0o755)
    said = find_program(str(tmp_path / "program"))
    subprocess.run(["umount", str(tmp_path)], check=True)
    assert said.value.endswith("Permission denied; its file system is mounted noexec")


@pytest.mark.parametrize(
    ("path", "unit"),
    [
        ("/system.slice/me.service", "/system.slice/me.service"),
        ("/system.slice/me.service/below/more", "/system.slice/me.service"),
        (
            "/user.slice/user@1.service/app.slice/run-3.scope",
            "/user.slice/user@1.service/app.slice/run-3.scope",
        ),
        ("/", None),
        ("/user.slice", None),
        ("/me.service.d", None),
    ],
)
def test_the_unit_in_a_cgroup_name(path: str, unit: str | None) -> None:
    assert _unit_of(path) == unit


@pytest.mark.parametrize(
    ("root", "status", "part"),
    [
        ("/spurproc", "ok", "leaves runs alone"),
        ("/system.slice/me.service-2/spurproc", "ok", "leaves runs alone"),
        ("/system.slice/me.service/spurproc", "limit", "lies inside of it"),
        (None, "limit", "runs stay in its cgroup"),
    ],
)
def test_a_unit_whose_end_is_the_end_of_runs(root: str | None, status: str, part: str) -> None:
    said = _in_unit("/system.slice/me.service", root)
    assert (said.status.value, said.value) == (status, "me.service")
    assert part in said.meaning
