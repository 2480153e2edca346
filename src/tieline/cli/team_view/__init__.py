"""A team's conversation on a terminal."""
