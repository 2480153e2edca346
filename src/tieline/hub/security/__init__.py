"""Who may do what: every request and every upgrade passes `middleware`."""
