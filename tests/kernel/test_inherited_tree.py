"""What a supervisor takes over from one that has died."""

from __future__ import annotations

import errno
import os

import msgspec
import pytest

from spurproc.core.cgroup.cgroup import Cgroup
from spurproc.core.process.identity import ProcessIdentity
from spurproc.core.tree.members import Containment
from spurproc.errors import SystemCallError
from spurproc.proto.descriptor import Descriptor
from spurproc.proto.runtime_id import RuntimeId
from spurproc.stepd.step_tree import StepTree
from tests.descriptors import descriptors_left

pytestmark = pytest.mark.needs_cgroup_v2


def _left(cgroup: Cgroup) -> Descriptor:
    me = ProcessIdentity.of(os.getpid()).to_text()
    return Descriptor(
        runtime_id=RuntimeId(1, 1, 0), supervisor_text=me, host_text=me, containment=Containment.CGROUP, cgroup=cgroup.record()
    )


def test_a_cgroup_that_cannot_be_opened_just_now_is_not_taken_for_none(cgroup: Cgroup) -> None:
    """Else its tree would be said to be gone, and what runs in it would be left alone. Once there is room it is taken over."""
    tree = StepTree(ProcessIdentity.of(os.getpid()))
    left = _left(cgroup)
    with descriptors_left(0), pytest.raises(SystemCallError) as caught:
        tree.inherit(left)
    assert caught.value.errno == errno.EMFILE
    tree.inherit(left)
    assert tree.cgroup is not None
    with tree.cgroup:
        assert tree.cgroup.inode == cgroup.inode


def test_what_it_is_not_held_to_stays_on_record(cgroup: Cgroup) -> None:
    tree = StepTree(ProcessIdentity.of(os.getpid()))
    tree.inherit(msgspec.structs.replace(_left(cgroup), not_enforced=("memory.max",)))
    assert tree.not_enforced == ("memory.max",)
    assert tree.cgroup is not None
    tree.cgroup.close()


def test_a_cgroup_that_was_removed_had_nobody_left_in_it(cgroup: Cgroup) -> None:
    tree = StepTree(ProcessIdentity.of(os.getpid()))
    left = _left(cgroup)
    cgroup.remove()
    tree.inherit(left)
    assert tree.whole() is None
