"""Gemini CLI, as people run it themselves."""
