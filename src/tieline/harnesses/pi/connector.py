"""Connects to Pi: its extension runs in the terminal's own process. A prompt from there wakes an idle session. A
message for a running turn waits in Pi's memory until the tool that runs is done. Where its person agreed, the extension
also tells what happens in a session."""

from ...mesh.push import Rung
from ...protocol.harness_plugins import PluginSession
from ..terminals.attached_plugin_connector import AttachedPluginConnector, PluginTerminal


class PiConnector(AttachedPluginConnector):
    harness = "pi"
    in_memory: frozenset[Rung] = frozenset({"mid_turn"})

    def new_terminal(self, session: PluginSession) -> PluginTerminal:
        from .terminal import PiTerminal

        return PiTerminal(self, session.id, session.cwd)
