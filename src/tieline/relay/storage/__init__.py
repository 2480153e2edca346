"""What the relay keeps on the bus."""
