"""Channels: loaded from the configuration, trusted, started, reloaded."""
