"""What the hub derives from its logs: usage and the search index."""
