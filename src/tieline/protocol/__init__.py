"""What hub, nodes, clients and the page say to each other: frozen values, one JSON for all of them.

`commands` what a node can be told · `link` the frames between a node and a hub · `frames` those between a client and a
hub · `views` what people are shown · `bodies` what a request may contain · `problems` how a refusal reads.
"""

PROTOCOL = 1
"""The version spoken here. It grows when an older peer would misunderstand; new optional fields do not change it."""

OLDEST = 1
"""The oldest version that is still understood. A peer below it, or above PROTOCOL without offering it, is refused."""
