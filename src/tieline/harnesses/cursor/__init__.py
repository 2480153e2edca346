"""Cursor, as people run it themselves."""
