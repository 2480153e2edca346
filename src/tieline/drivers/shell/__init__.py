"""Any command line. `driver` is the way in."""
