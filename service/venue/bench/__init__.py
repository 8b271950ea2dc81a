"""Benches: what `venue bench` runs."""
