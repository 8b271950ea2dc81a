"""Writes the dashboards: `python generate.py [FOLDER]`, by default into `dashboards` beside this file.

The same sources give the same bytes. Needs `pip install 'venue[dashboards]'`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder

import flow
import latency

DASHBOARDS = {"latency.json": latency.build, "flow.json": flow.build}


def generate(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, build in DASHBOARDS.items():
        board = build().build()
        for number, panel in enumerate(board.panels or [], start=1):
            panel.id_val = number  # links to a panel stay valid as long as its place does
        text = JSONEncoder(sort_keys=True, indent=2, ensure_ascii=False).encode(board)
        (folder / name).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("dashboards"))
