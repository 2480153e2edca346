"""The commands as Typer declares them: arguments, options, help. The work is in `commands` and `run`."""
