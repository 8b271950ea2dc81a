"""What the operator asks for, by way of the telemetry process: a mailbox in shared memory with room for one request."""

from __future__ import annotations

import logging

from venue.engine.cells import Int64s
from venue.gateway import Gateway
from venue.telemetry.live_memory import MAILBOX
from venue.telemetry.page import Page

log = logging.getLogger("venue.operator")


class OperatorMailbox:
    """The reading end; belongs to the loop thread. Whoever writes has checked that it is the operator."""

    def __init__(self, page: Page, requests: Int64s, gateway: Gateway) -> None:
        self._page = page
        self._requests = requests
        self._gateway = gateway
        self._names = page.account_names()

    def poll(self) -> None:
        """Carry out a new request, and say in the counters page that it was taken."""
        number, account, on = self._requests[MAILBOX : MAILBOX + 3].tolist()
        if number <= self._page.header["requests_handled"][0]:
            return
        if 0 <= account < len(self._names):
            self._gateway.set_kill_switch(account, on != 0)
            log.warning("kill switch set by the operator", extra={"account": self._names[account], "on": on != 0})
        self._page.header["requests_handled"][0] = number
