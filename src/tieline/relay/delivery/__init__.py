"""From an accepted message to its last receipt."""
