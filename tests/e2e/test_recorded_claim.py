"""The folder of a launch that was killed before its run was published, by who launches there next."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from spurproc.core.durable.lock import FolderLock
from spurproc.core.durable.private_folder import PrivateFolder
from spurproc.core.recorded.launch import launch_recorded
from spurproc.core.recorded.run import RecordedRun
from spurproc.core.spawn.plan import SpawnPlan
from tests.asleep import await_sleep


def test_a_lock_on_its_way_out_is_waited_for(tmp_path: Path) -> None:
    """A child of the killed launcher has a copy until its exec. What else was left is cleared then."""
    launched: list[RecordedRun] = []
    with PrivateFolder.create(tmp_path / "run") as folder:
        lock = FolderLock.take(folder, create=True)
        assert lock is not None
        launcher = threading.Thread(target=lambda: launched.append(launch_recorded(SpawnPlan(argv=["true"]), folder.path)))
        with lock:
            launcher.start()
            assert launcher.native_id is not None
            await_sleep(launcher.native_id, "poll")
            os.close(folder.create_file("exit.tmp", bytes(128)))
        launcher.join()
    (run,) = launched
    with run:
        assert run.wait(10).succeeded
        run.terminate()
        run.remove()
