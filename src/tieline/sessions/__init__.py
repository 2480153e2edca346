"""Sessions: one conversation each, one turn at a time, asks decided in one place."""
