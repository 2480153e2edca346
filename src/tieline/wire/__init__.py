"""Bytes and child processes. Nothing here knows an agent."""
