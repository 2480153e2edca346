"""OpenCode, as people run it themselves."""
