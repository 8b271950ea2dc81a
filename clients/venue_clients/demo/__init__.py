"""`venue demo`: a whole exchange at work, from one command."""
