"""Pi. `driver` is the way in."""
