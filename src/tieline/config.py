"""One frozen Config from TOML and the environment.

`tieline.toml` in `$XDG_CONFIG_HOME/tieline` (`~/.config/tieline`), or the file that `$TIELINE_CONFIG` names. Example:

    default_agent = "codex"
    policy = "edits"

    [agents.reviewer]
    type = "shell"
    command = ["my-agent", "--json"]
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from .environment import config_file, inherited
from .errors import UsageError


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    default_agent: str = ""
    policy: str = "ask"
    agents: Mapping[str, Mapping[str, Any]] = {}  # name → its type and that driver's options
    environ: Mapping[str, str] = {}
    source: str = ""  # the file it came from


def load(*, environ: Mapping[str, str] | None = None) -> Config:
    """Raises UsageError that names the file and the field."""
    env = inherited() if environ is None else dict(environ)
    found = config_file(env)
    if not found:
        return Config(environ=env)
    path = Path(found)
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
