"""Mistral Vibe, as people run it themselves."""
