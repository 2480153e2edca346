"""What each command does. Imported when its command is called, not before."""
