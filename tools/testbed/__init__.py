"""A real distributed file system on one machine: GlusterFS servers and clients on loopback, one mount for each node.

It needs root and Debian's packages glusterfs-server, glusterfs-client and fuse3. A file is striped over the servers
(bricks). Each node's mount has its own client and its own cache, so processes that read through different mounts are
like processes on different nodes: a rank takes the mount of its node. Every read of a server can be made to wait, as
for a disk and a network, and to fail now and then. Nothing listens but on loopback.

On the command line::

    python -m tools.testbed up --bricks 2 --nodes 4 --read-delay 1ms     # prints the mounts
    python -m tools.testbed status --json
    python -m tools.testbed down

In a benchmark or a test::

    with Testbed(bricks=2, nodes=4, read_delay_us=1000) as testbed:
        shutil.copytree("train.lmdb", testbed.mount_of(0) / "train.lmdb")
        for mount in testbed.mounts:                                     # the same files in each
            measure(mount / "train.lmdb")

A file that was closed or synced on one node is whole on every other that opens it then. One that is open already hears
within a second of what another node does, and never of bytes changed in place, beyond its first 16 MiB only: a stripe
has no say in the file's time. Programs that write a new file and rename it, or LMDB, whose first page changes with each
commit, do not come to feel this.

Whatever happened to its processes, ``python -m tools.testbed down`` leaves no process, mount, port or file behind.
"""

from tools.testbed.state import DEFAULT_FOLDER, TestbedError
from tools.testbed.status import Status, status
from tools.testbed.testbed import Testbed, down

__all__ = ["DEFAULT_FOLDER", "Status", "Testbed", "TestbedError", "down", "status"]
