"""One frozen Config from TOML and the environment. Nothing else reads os.environ.

`tieline.toml` in the working directory, else `config.toml` in `$XDG_CONFIG_HOME/tieline` (`~/.config/tieline`);
`$TIELINE_CONFIG` names another. Example:

    default_agent = "codex"
    policy = "edits"

    [agents.reviewer]
    type = "shell"
    command = ["my-agent", "--json"]
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from .errors import UsageError


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    default_agent: str = ""
    policy: str = "ask"
    agents: Mapping[str, Mapping[str, Any]] = {}  # name → its type and that driver's options
    environ: Mapping[str, str] = {}
    source: str = ""  # the file it came from


def load(*, environ: Mapping[str, str] | None = None, cwd: str | Path = ".") -> Config:
    """Raises UsageError that names the file and the field."""
    env = dict(os.environ if environ is None else environ)
    path = _find(env, Path(cwd))
    if path is None:
        return Config(environ=env)
    import tomllib  # only where there is a file

    try:
        content = tomllib.loads(path.read_text())
        config = msgspec.convert({**content, "environ": env, "source": str(path)}, Config)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", field="config") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not valid TOML: {error}", field="config") from None
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: {error}", field="config") from None
    for name, agent in config.agents.items():
        if not isinstance(agent.get("type"), str):
            raise UsageError(
                f"{path}: agents.{name} has no type",
                field=f"agents.{name}.type",
                hint='Say which driver it uses, for example type = "shell".',
            )
    return config


def variable(name: str) -> str:
    """A variable that counts before, or without, a Config: how errors are shown, whether there are colours."""
    return os.environ.get(name, "")


def _find(env: Mapping[str, str], cwd: Path) -> Path | None:
    if named := env.get("TIELINE_CONFIG"):
        return Path(named)
    home = env.get("HOME", "")
    base = env.get("XDG_CONFIG_HOME") or (f"{home}/.config" if home else "")
    places = [cwd / "tieline.toml"]
    if base:
        places.append(Path(base) / "tieline" / "config.toml")
    return next((place for place in places if place.is_file()), None)
