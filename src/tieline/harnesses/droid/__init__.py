"""Factory's Droid, as people run it themselves."""
