"""What OpenCode reads of a repository, and how it is kept from it: for its own driver, and over ACP."""

NO_PROJECT = "OPENCODE_DISABLE_PROJECT_CONFIG"
"""A repository's own settings and instructions are not there. It starts the plugins and tool servers that they name
without asking anybody."""
PROJECT_SETTINGS = ("opencode.json", "opencode.jsonc", ".opencode")
INSTRUCTIONS = ("AGENTS.md", "CLAUDE.md", "CONTEXT.md")
"""What it reads of a repository otherwise: the first of these that there is."""

_NAMES_PLUGINS = r"plugin|\\u00"
"""What a file of settings has in it that names plugins, also with letters of it escaped."""
RUNS = {
    ".opencode/plugin/*.[jt]s": "",
    ".opencode/plugins/*.[jt]s": "",
    "opencode.json": _NAMES_PLUGINS,
    "opencode.jsonc": _NAMES_PLUGINS,
    ".opencode/opencode.json": _NAMES_PLUGINS,
    ".opencode/opencode.jsonc": _NAMES_PLUGINS,
}
"""Plugins that it loads all the same: their functions are not called, but a module runs when it is loaded."""
