"""Wire formats and sessions: no sockets, no clock, nothing compiled. See README.md beside this file."""
