"""Any other harness that speaks MCP."""
