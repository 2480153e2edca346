"""Copilot in VS Code, as people run it themselves."""
