"""Which signals end a command in good order: Ctrl-C, SIGTERM, and a terminal that is closed, unless nohup had it ignore
that. The exchange has the same rule, of its own: clients know nothing of it but the wire."""

from __future__ import annotations

import signal
from typing import Final

HANGUP_IGNORED: Final = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
STOPS: Final = (signal.SIGINT, signal.SIGTERM) + (() if HANGUP_IGNORED else (signal.SIGHUP,))
