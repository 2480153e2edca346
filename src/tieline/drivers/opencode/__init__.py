"""OpenCode. `driver` is the way in; `launch` stays light, because the command line starts the agent before all else."""
