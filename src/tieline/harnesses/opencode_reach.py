"""The live way into OpenCode: its plugin runs in the terminal's own process. A prompt from there is shown at once; it
wakes an idle session and gets into a running turn after the tool that runs just then."""

from ..mesh.plugin_reach import PluginReach


class OpenCodeReach(PluginReach):
    harness = "opencode"
