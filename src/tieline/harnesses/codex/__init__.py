"""Codex, as people run it themselves."""
