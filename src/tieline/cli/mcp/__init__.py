"""`tieline mcp`: the mesh's MCP server on standard input and output."""
