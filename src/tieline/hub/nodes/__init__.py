"""The nodes of a hub: their links, their replicated logs, and the commands to them."""
