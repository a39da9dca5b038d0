"""A real distributed file system on one machine: GlusterFS servers and clients on loopback, one mount for each node."""

from tools.testbed.state import TestbedError
from tools.testbed.testbed import DEFAULT_FOLDER, Testbed, down

__all__ = ["DEFAULT_FOLDER", "Testbed", "TestbedError", "down"]
