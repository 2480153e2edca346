"""Agents that are started at their times."""
