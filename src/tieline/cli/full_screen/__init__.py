"""What the full-screen views share: the ask, the line that is typed, a running turn."""
