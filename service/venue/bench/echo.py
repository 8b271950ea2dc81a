"""A bare uvloop server that answers every so many bytes with so many others: what a round trip costs without an
exchange. `python -m venue.bench.echo REQUEST_BYTES ANSWER_BYTES` prints its port and serves until it is terminated."""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import cast

import uvloop


class Echo(asyncio.Protocol):
    """Answers each whole request."""

    def __init__(self, request_bytes: int, answer_bytes: int) -> None:
        self._request_bytes = request_bytes
        self._answer = bytes(answer_bytes)
        self._received = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        requests, self._received = divmod(self._received + len(data), self._request_bytes)
        if requests:
            self._transport.write(self._answer * requests)


async def serve(request_bytes: int, answer_bytes: int) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Echo(request_bytes, answer_bytes), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), int(sys.argv[2])))
