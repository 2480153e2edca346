"""Kimi Code, as people run it themselves."""
