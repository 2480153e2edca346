"""Claude Code, as people run it themselves."""
