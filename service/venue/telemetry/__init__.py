"""What people see of a running exchange, served by a process of its own that only reads the counters page."""

from venue.telemetry.launcher import launch as launch
