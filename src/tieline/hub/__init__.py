"""What people and nodes connect to: HTTP, WebSocket, the page."""
