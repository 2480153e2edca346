"""Integrations with harnesses: programs in which people run agents themselves. One module per harness."""
