"""Claude Code. `driver` is the way in."""
