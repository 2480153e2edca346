"""What writes tables and pages of docs/ from the code, for `make docs`."""
