"""What draws on a terminal, and what is written when there is none."""
