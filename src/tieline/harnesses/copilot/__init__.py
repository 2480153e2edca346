"""GitHub Copilot CLI, as people run it themselves."""
