"""Amazon Q Developer CLI, as people run it themselves."""
