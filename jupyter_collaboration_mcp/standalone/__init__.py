"""What the standalone command needs besides MCP: servers found, started and examined."""
