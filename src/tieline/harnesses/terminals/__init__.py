"""What the sessions in people's own terminals share, whichever harness they run: connectors, terminals, transcripts."""
