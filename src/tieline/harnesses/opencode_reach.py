"""The live way into OpenCode: its plugin runs in the terminal's own process. A prompt from there is shown at once; it
wakes an idle session and gets into a running turn after the tool that runs just then. Where its person agreed, the
plugin also tells what happens in a session."""

from ..protocol.harness_plugins import PluginSession
from .attached_plugin_reach import AttachedPluginReach, PluginTerminal


class OpenCodeReach(AttachedPluginReach):
    harness = "opencode"

    def new_terminal(self, session: PluginSession) -> PluginTerminal:
        from .opencode_terminal import OpenCodeTerminal

        return OpenCodeTerminal(self, session.id, session.cwd)
