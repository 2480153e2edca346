"""The live way into Pi: its extension runs in the terminal's own process. A prompt from there wakes an idle session. A
message for a running turn waits in Pi's memory until the tool that runs is done."""

from ..mesh.plugin_reach import PluginReach
from ..mesh.push import Rung


class PiReach(PluginReach):
    harness = "pi"
    in_memory: frozenset[Rung] = frozenset({"mid_turn"})
