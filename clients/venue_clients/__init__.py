"""Clients of a venue: they know the wire layer and nothing else of the service."""
