"""Starting the telemetry process from the process that owns the counters page."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path


def launch(page_path: Path, listening_socket: socket.socket) -> subprocess.Popen[bytes]:
    """Start ``python -m venue.telemetry`` on a page and on a socket that already listens.

    The caller bound the socket, so that a busy port is an error there, and may close its own copy afterwards. The
    process is in a group of its own, so that Ctrl-C in a terminal reaches only the caller, who ends it with
    ``terminate()`` and ``wait()``; without that it ends by itself within about a second after the caller is gone.
    """
    descriptor = listening_socket.fileno()
    command = [sys.executable, "-P", "-m", "venue.telemetry", str(page_path), str(descriptor)]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[descriptor], process_group=0)
