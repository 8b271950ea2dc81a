"""The matching engine: compiled, GIL-free, integers only; it knows no sockets and no event loop."""
