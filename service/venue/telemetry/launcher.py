"""Starting the telemetry process from the process that owns the counters page."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Final

TOKEN_HASH: Final = "VENUE_OPERATOR_TOKEN_HASH"
"""The environment variable that hands the hash over: only this user can see it, unlike a command line."""


def launch(page_path: Path, listening_socket: socket.socket, operator_token_hash: str = "") -> subprocess.Popen[bytes]:
    """Start ``python -m venue.telemetry`` on a page and on a socket that already listens.

    The caller bound the socket, so that a busy port is an error there, and may close its own copy afterwards. The
    process is in a group of its own, so that Ctrl-C in a terminal reaches only the caller, who ends it with
    ``terminate()`` and ``wait()``; without that it ends by itself within about a second after the caller is gone.
    Without ``operator_token_hash`` nobody can change anything over HTTP.
    """
    descriptor = listening_socket.fileno()
    command = [sys.executable, "-P", "-m", "venue.telemetry", str(page_path), str(descriptor)]
    environment = os.environ | {TOKEN_HASH: operator_token_hash}
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[descriptor], process_group=0, env=environment)
