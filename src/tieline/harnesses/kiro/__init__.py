"""Kiro, as people run it themselves."""
