"""Bytes into messages: lines, server-sent events, JSON-RPC. Nothing here knows an agent."""
