"""How Claude Code is started by its ACP adapter where a repository's settings do not count."""

import os
import subprocess
from pathlib import Path

import pytest

from tieline.drivers.acp.claude_program import ENV, claude_without_repository
from tieline.drivers.acp.launch import launch_command
from tieline.drivers.acp_presets import PRESETS
from tieline.drivers.base import Spec

TELLS = '#!/bin/sh\necho "$0" "$@" "[${CLAUDE_CODE_EXECUTABLE-}]"\n'
LINUX = ("linux-x64-musl", "linux-x64")


def program(path: Path, content: str = TELLS) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    path.chmod(0o755)
    return str(path)


def output(tmp_path: Path, content: str, **env: str) -> str:
    started = program(tmp_path / "a folder's" / "started", content)
    argv = [started, "auth", "status", "--json"]
    return subprocess.check_output(argv, env=env, text=True, timeout=30).strip()


@pytest.mark.parametrize("libc", ["glibc", ""])
def test_it_is_the_one_that_came_with_the_adapter(tmp_path: Path, libc: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.libc_ver", lambda: (libc, ""))
    package = tmp_path / "lib's" / "node_modules"
    adapter = program(package / "@agentclientprotocol" / "claude-agent-acp" / "dist" / "index.js")
    claudes = [program(package / "@anthropic-ai" / f"claude-agent-sdk-{each}" / "claude") for each in LINUX]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "claude-agent-acp").symlink_to(adapter)

    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    for command in (("claude-agent-acp",), ("node", adapter)):
        content = claude_without_repository(command, {"PATH": path})
        claude = claudes[bool(libc)]
        assert output(tmp_path, content, PATH=path) == f"{claude} --setting-sources user auth status --json []"


def test_a_persons_own_is_kept(tmp_path: Path) -> None:
    own = program(tmp_path / "my claude")
    content = claude_without_repository(("claude-agent-acp",), {ENV: own})
    assert output(tmp_path, content, **{ENV: "itself"}) == f"{own} --setting-sources user auth status --json []"


def test_one_that_is_a_script_is_run_by_node(tmp_path: Path) -> None:
    content = claude_without_repository(("claude-agent-acp",), {ENV: "/my/claude.mjs"})
    node = program(tmp_path / "bin" / "node")
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    assert output(tmp_path, content, PATH=path) == (
        f"{node} /my/claude.mjs --setting-sources user auth status --json []"
    )


def test_an_adapter_that_another_program_starts_is_asked(tmp_path: Path) -> None:
    npx = program(tmp_path / "bin" / "npx")
    content = claude_without_repository((npx, "-y", "the adapter"), {"PATH": ""})
    assert output(tmp_path, content, **{ENV: "itself"}) == (
        f"{npx} -y the adapter --cli --setting-sources user auth status --json []"
    )


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_only_where_a_repositorys_settings_do_not_count(name: str, tmp_path: Path) -> None:
    preset, spec = PRESETS[name], Spec(cwd=str(tmp_path), env={"PATH": ""})
    assert ENV not in launch_command(preset, (), spec, str(tmp_path)).env
    launch = launch_command(preset, (), spec, str(tmp_path), repository=False)
    assert (ENV in launch.env) == (name == "claude-agent-acp")
    assert ENV not in launch.env or launch.files[launch.env[ENV]].startswith("#!/bin/sh\n")
