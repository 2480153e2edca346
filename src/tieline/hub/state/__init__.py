"""The present, held in memory as the bus's tables have it."""
