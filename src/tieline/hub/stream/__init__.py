"""The event stream to clients: over WebSocket and as server-sent events."""
