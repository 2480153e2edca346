"""Connects to OpenCode: its plugin runs in the terminal's own process. A prompt from there is shown at once; it
wakes an idle session and gets into a running turn after the tool that runs just then. Where its person agreed, the
plugin also tells what happens in a session."""

from ...protocol.harness_plugins import PluginSession
from ..terminals.attached_plugin_connector import AttachedPluginConnector, PluginTerminal


class OpenCodeConnector(AttachedPluginConnector):
    harness = "opencode"

    def new_terminal(self, session: PluginSession) -> PluginTerminal:
        from .terminal import OpenCodeTerminal

        return OpenCodeTerminal(self, session.id, session.cwd)
