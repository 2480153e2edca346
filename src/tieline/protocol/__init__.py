"""What the hub, nodes, clients and the page send each other: frozen values with one JSON form.

`commands` to a node · `node_link` frames between a node and a hub · `stream_frames` between a client and a hub ·
`views` of machines, agents and devices · `request_bodies` · `problems`, the form of a refusal · and a module for each
resource.
"""

PROTOCOL = 1
"""The version spoken here. It grows when an older peer would misunderstand; new optional fields do not change it."""

OLDEST = 1
"""The oldest version that is still understood. A peer below it, or above PROTOCOL without offering it, is refused."""
