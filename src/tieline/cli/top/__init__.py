"""`tieline top`: all machines and sessions of the hub on one screen."""
