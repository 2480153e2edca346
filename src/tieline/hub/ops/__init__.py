"""Logs, metrics, traces and background tasks."""
