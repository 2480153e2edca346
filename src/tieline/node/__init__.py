"""A machine that runs sessions: carries out commands, tells which agents it has, and dials out to a hub."""
