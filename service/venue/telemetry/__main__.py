"""``python -m venue.telemetry PAGE DESCRIPTOR``: started by the exchange, see :mod:`venue.telemetry.launcher`."""

import sys
from pathlib import Path

from venue import logs
from venue.telemetry.pages import PageError
from venue.telemetry.server import run


def main() -> int:
    if len(sys.argv) != 3 or not sys.argv[2].isdecimal():
        print("usage: python -m venue.telemetry PAGE LISTENING-SOCKET-DESCRIPTOR", file=sys.stderr)
        return 2
    logs.setup()
    try:
        run(Path(sys.argv[1]), int(sys.argv[2]))
    except (PageError, OSError) as error:
        print(f"venue telemetry: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
