"""Pi, as people run it themselves."""
