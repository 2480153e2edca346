"""How a phone reaches the hub beyond loopback: by the local network, or by a tunnel of another program."""
