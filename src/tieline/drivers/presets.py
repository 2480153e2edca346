"""ACP agents as data: how each is started, and its known quirks. Light: the registry reads the names."""

from collections.abc import Mapping

from msgspec import Struct


class Preset(Struct, frozen=True, kw_only=True):
    command: tuple[str, ...]
    env: Mapping[str, str] = {}
    install: str = ""  # what to do when it is missing


PRESETS: dict[str, Preset] = {
    "gemini": Preset(
        command=("gemini", "--acp"),
        env={"GEMINI_CLI_NO_RELAUNCH": "1"},
        install="npm install -g @google/gemini-cli",
    ),
}
