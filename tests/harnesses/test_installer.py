"""Installing on real files: twice in, once out, and every byte is as it was."""

import codecs
import json
import re
import stat
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.harnesses.older_claude_code import OlderClaudeCode

from tieline.harnesses import installer, registry
from tieline.harnesses.base import InstallOptions, Transport
from tieline.harnesses.installer import CannotInstall

SETTINGS = b"""\
// mine\r
{\r
\t"theme" : "dark",   // keep\r
\t"hooks": {\r
\t\t"Stop": [ {"hooks":[{"type":"command","command":"say done"}]} ], /* and this */\r
\t\t"PreToolUse": [],\r
\t},\r
\t"mcpServers": {"other" : {"command":"x","args":[ ]},},\r
\t"servers": {}, "mcp": { },\r
}\r
"""
ODD_TOML = b"""\
# mine
model   =  "o3"   # keep\r
[mcp_servers.other]
command='x'
[[list]]
  a = [ 1,
2 ]
[projects."/a b"]
trust_level = "trusted\""""
MARKDOWN = b"# My rules\r\n\r\n- be brief\r\n<!-- a comment -->"


def options(home: Path, **more: Any) -> InstallOptions:
    return InstallOptions(env={"HOME": str(home)}, program="/opt/bin/tieline", python="/opt/bin/python", **more)


def content(root: Path) -> dict[str, bytes | None]:
    """Every file and folder, except Tieline's own."""
    own = root / ".local"
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else None
        for path in sorted(root.rglob("*"))
        if path != own and own not in path.parents
    }


def install(name: str, given: InstallOptions) -> bool:
    """Whether anything changed."""
    changes = installer.plan_install(registry.create(name), given)
    installer.apply(changes, given.env)
    return bool(changes)


def uninstall(name: str, given: InstallOptions) -> bool:
    changes = installer.plan_uninstall(registry.create(name), given)
    installer.apply(changes, given.env)
    return bool(changes)


def nasty(path: Path) -> bytes | None:
    """What a person may have in such a file. None: the file would be ours as a whole."""
    if "tieline" in path.parent.name or path.name.startswith("tieline."):
        return None
    toml = ODD_TOML.replace(b"[mcp_servers.other]", b"[[mcp_servers]]") if path.parent.name == ".vibe" else ODD_TOML
    return {".json": SETTINGS, ".toml": toml, ".md": MARKDOWN}[path.suffix]


SCOPES = ("global", "project")
TRANSPORTS: tuple[Transport, ...] = ("stdio", "http")


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("name", registry.names())
def test_twice_in_and_once_out_leaves_a_persons_files_as_they_were(
    name: str, scope: str, transport: Transport, tmp_path: Path
) -> None:
    project = str(tmp_path / "a project") if scope == "project" else ""
    given = options(tmp_path, project=project, transport=transport, hooks=True)
    for file in registry.create(name).files(given):
        if text := nasty(file.path):
            file.path.parent.mkdir(parents=True, exist_ok=True)
            file.path.write_bytes(text)
    before = content(tmp_path)
    assert install(name, given)
    once = content(tmp_path)
    assert not install(name, given)
    assert content(tmp_path) == once != before
    assert {each.state for each in installer.look(registry.create(name), given)} == {"installed"}
    assert uninstall(name, given)
    assert content(tmp_path) == before
    assert not uninstall(name, given)


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("name", registry.names())
def test_what_was_made_goes_again(name: str, scope: str, tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    given = options(tmp_path, project=str(tmp_path / "p") if scope == "project" else "")
    before = content(tmp_path)
    install(name, given)
    assert len(content(tmp_path)) > len(before)
    uninstall(name, given)
    assert content(tmp_path) == before


def ordinary(path: Path) -> bytes:
    """What most people have in such a file."""
    if path.suffix == ".json":
        other = {"command": "x", "env": {"A": "1"}}
        return json.dumps({"theme": "dark", "mcpServers": {"other": other}, "mcp": {}}, indent=2).encode() + b"\n"
    if path.suffix == ".toml":
        return b'# mine\nmodel = "o3"\n\n[profiles.fast]\nmodel = "o4"  # keep\n'
    return b"# My rules\n\n- be brief\n"


FORMS: dict[str, Callable[[bytes], bytes]] = {
    "as it is": lambda text: text,
    "CRLF": lambda text: text.replace(b"\n", b"\r\n"),
    "BOM": lambda text: codecs.BOM_UTF8 + text,
    "BOM and CRLF": lambda text: codecs.BOM_UTF8 + text.replace(b"\n", b"\r\n"),
    "tabs": lambda text: text.replace(b"  ", b"\t"),
    "no end of line": lambda text: text.rstrip(b"\n"),
    "lines after it": lambda text: text + b"\n \n\n",
    "one line": lambda text: b"".join(line.strip() for line in text.splitlines()) if text[:1] == b"{" else text,
    "other scripts": lambda text: text.replace(b"dark", "dünkel 暗い 🌑".encode()).replace(b"My", "Мои".encode()),
    "empty": lambda text: b"",
    "blank": lambda text: b"\n",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", registry.names())
def test_every_form_of_a_file_in_every_harness_is_as_it_was(name: str, form: str, tmp_path: Path) -> None:
    given = options(tmp_path, hooks=True)
    texts: dict[Path, bytes] = {}
    for file in registry.create(name).files(given):
        if nasty(file.path) is not None:
            file.path.parent.mkdir(parents=True, exist_ok=True)
            texts[file.path] = FORMS[form](ordinary(file.path))
            file.path.write_bytes(texts[file.path])
    before = content(tmp_path)
    assert install(name, given) and not install(name, given)
    assert {each.state for each in installer.look(registry.create(name), given)} == {"installed"}
    for path, text in texts.items():  # what was there is there, and in its own line ends
        new = path.read_bytes()
        assert new.startswith(codecs.BOM_UTF8) == text.startswith(codecs.BOM_UTF8)
        if b"\r\n" in text:
            assert b"\n" not in new.replace(b"\r\n", b"")
    assert uninstall(name, given)
    assert content(tmp_path) == before


@pytest.mark.parametrize("kind", ["file", "folder"])
@pytest.mark.parametrize("name", registry.names())
def test_the_links_of_every_harness_stay(name: str, kind: str, tmp_path: Path) -> None:
    """As programs for dotfiles make them: every file a link, or its folder one."""
    given, dotfiles = options(tmp_path / "home"), tmp_path / "dotfiles"
    links: list[Path] = []
    for number, file in enumerate(registry.create(name).files(given)):
        if nasty(file.path) is None or not file.path.is_relative_to(tmp_path / "home"):
            continue
        real, link = dotfiles / f"{number}" / file.path.name, file.path
        if kind == "folder":
            if link.parent == tmp_path / "home" or link.parent.exists():
                continue
            real, link = real.parent, link.parent
        target = real if kind == "file" else real / file.path.name
        target.parent.mkdir(parents=True)
        target.write_bytes(ordinary(file.path))
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(real)
        links.append(link)
    before = {path: path.read_bytes() for path in dotfiles.rglob("*") if path.is_file()}
    assert install(name, given) and not install(name, given)
    assert all(link.is_symlink() for link in links)
    assert not links or {path: path.read_bytes() for path in before} != before
    assert uninstall(name, given)
    assert all(link.is_symlink() for link in links)
    assert {path: path.read_bytes() for path in dotfiles.rglob("*") if path.is_file()} == before


def test_all_harnesses_together_in_and_out_in_any_order(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_bytes(MARKDOWN)
    given = options(tmp_path / "home", project=str(tmp_path))
    before = content(tmp_path)
    for name in registry.names():
        install(name, given)
    for name in registry.names():
        assert not install(name, given), f"{name} is written anew after the others"
    for name in registry.names():  # the first in is the first out: shared files stay for the others
        uninstall(name, given)
    after = {path: text for path, text in content(tmp_path).items() if not path.startswith("home")}
    assert after == {path: text for path, text in before.items() if not path.startswith("home")}


def test_other_entries_are_read_as_before(tmp_path: Path) -> None:
    given = options(tmp_path)
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex/config.toml").write_bytes(ODD_TOML)
    install("codex", given)
    new = tomllib.loads((tmp_path / ".codex/config.toml").read_text())
    ours = new["mcp_servers"].pop("tieline")
    assert new == tomllib.loads(ODD_TOML.decode())
    assert (ours["command"], ours["args"]) == ("/opt/bin/tieline", ["mcp"])


def test_a_link_stays_a_link_and_the_mode_is_kept(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    real = tmp_path / "dotfiles/claude.json"
    real.write_text('{"a": 1}')
    real.chmod(0o640)
    (tmp_path / ".claude.json").symlink_to(real)
    given = options(tmp_path)
    install("claude-code", given)
    assert (tmp_path / ".claude.json").is_symlink()
    assert "tieline" in json.loads(real.read_text())["mcpServers"]
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    uninstall("claude-code", given)
    assert (tmp_path / ".claude.json").is_symlink() and real.read_text() == '{"a": 1}'


def test_a_loop_of_links_is_told(tmp_path: Path) -> None:
    (tmp_path / ".claude.json").symlink_to(tmp_path / ".claude.json")
    with pytest.raises(CannotInstall, match=r"\.claude\.json"):
        installer.plan_install(registry.create("claude-code"), options(tmp_path))


@pytest.mark.parametrize(
    ("name", "path", "text", "problem"),
    [
        ("claude-code", ".claude.json", b'{"a": 1,\n  oops}', "line 2, column 3"),
        ("codex", ".codex/config.toml", b"a = 1\nb = = 2\n", "line 2, column 5"),
        ("claude-code", ".claude/CLAUDE.md", b"one\ntwo \xff", "not UTF-8 text (line 2)"),
        ("claude-code", ".claude.json", b'{"mcpServers": {"tieline": {"command": "mine"}}}', "did not write it"),
        ("codex", ".codex/config.toml", b"mcp_servers = {}\n", "written inline"),
        ("codex", ".agents/skills/tieline/SKILL.md", b"mine", "did not write"),
    ],
)
def test_a_file_that_cannot_be_changed_is_left_alone(
    name: str, path: str, text: bytes, problem: str, tmp_path: Path
) -> None:
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_bytes(text)
    before = content(tmp_path)
    given = options(tmp_path)
    with pytest.raises(CannotInstall) as caught:
        installer.plan_install(registry.create(name), given)
    assert problem in caught.value.message and str(tmp_path / path) in caught.value.message
    assert content(tmp_path) == before
    states = {each.path: each for each in installer.look(registry.create(name), given)}
    if "line " in problem:  # not readable at all: `tieline status` says so too
        assert problem in states[str(tmp_path / path)].problem


def test_all_files_or_none(tmp_path: Path) -> None:
    """The third file cannot be written: the two before it are as they were."""
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude/settings.json").write_bytes(SETTINGS)
    given = options(tmp_path)
    changes = installer.plan_install(registry.create("claude-code"), given)
    before = content(tmp_path)
    (tmp_path / ".claude/CLAUDE.md").write_text("written meanwhile")
    with pytest.raises(CannotInstall, match="another program has changed it"):
        installer.apply(changes, given.env)
    (tmp_path / ".claude/CLAUDE.md").unlink()
    assert content(tmp_path) == before


def test_a_backup_of_every_changed_file_is_kept_and_only_some_of_them(tmp_path: Path) -> None:
    (tmp_path / ".claude.json").write_text('{"a": 1}')
    given = options(tmp_path)
    backups = tmp_path / ".local/state/tieline/harness-backups"
    for _ in range(installer.BACKUPS_KEPT):
        install("claude-code", given)
        uninstall("claude-code", given)
    kept = list(backups.rglob("*.claude.json"))
    assert len(kept) == installer.BACKUPS_KEPT
    assert any(path.read_text() == '{"a": 1}' for path in kept)
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in kept)


def test_a_folder_that_was_there_stays(tmp_path: Path) -> None:
    (tmp_path / ".agents/skills").mkdir(parents=True)
    given = options(tmp_path)
    install("codex", given)
    uninstall("codex", given)
    assert content(tmp_path) == {".agents": None, ".agents/skills": None}


def test_another_program_path_is_outdated_and_installing_mends_it(tmp_path: Path) -> None:
    old = options(tmp_path)
    install("claude-code", old)
    moved = InstallOptions(env=old.env, program="/new/tieline", python="/new/python")
    states = {each.what: each.state for each in installer.look(registry.create("claude-code"), moved)}
    assert states["MCP server"] == "outdated" and states["instructions"] == "installed"
    install("claude-code", moved)
    assert "/opt/bin" not in (tmp_path / ".claude.json").read_text()
    assert uninstall("claude-code", moved)
    assert content(tmp_path) == {}


def test_hooks_of_an_older_version_are_outdated_and_go_with_an_install_or_an_uninstall(tmp_path: Path) -> None:
    given, older, now = options(tmp_path), OlderClaudeCode(), registry.create("claude-code")
    settings = tmp_path / ".claude/settings.json"
    settings.parent.mkdir()
    settings.write_bytes(SETTINGS)
    before = content(tmp_path)
    install("claude-code", given)
    fresh = content(tmp_path)
    uninstall("claude-code", given)
    for leave in (installer.plan_install, installer.plan_uninstall):
        installer.apply(installer.plan_install(older, given), given.env)
        assert {each.what: each.state for each in installer.look(now, given)}["hooks"] == "outdated"
        assert "PostToolUse" in settings.read_text()
        installer.apply(leave(now, given), given.env)
        assert content(tmp_path) == (fresh if leave is installer.plan_install else before)


def test_a_server_of_a_moved_state_folder_is_told_where_it_is(tmp_path: Path) -> None:
    given = InstallOptions(
        env={"HOME": str(tmp_path), "TIELINE_HOME": str(tmp_path / "elsewhere")}, program="/t/tieline", python="/p"
    )
    install("claude-code", given)
    entry = json.loads((tmp_path / ".claude.json").read_text())["mcpServers"]["tieline"]
    assert entry["env"]["TIELINE_HOME"] == str(tmp_path / "elsewhere")


def test_detection_reads_path_folder_and_version(tmp_path: Path) -> None:
    harness = registry.create("codex")
    env = {"HOME": str(tmp_path), "PATH": str(tmp_path / "bin")}
    assert not harness.detect(env).found
    (tmp_path / ".codex").mkdir()
    assert harness.detect(env).paths == (str(tmp_path / ".codex"),)
    program = tmp_path / "bin/codex"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho codex-cli 1.2.3.\n")
    program.chmod(0o755)
    detection = harness.detect(env)
    assert (detection.program, detection.version) == (str(program), "1.2.3")
    program.rename(tmp_path / "bin/real")
    package = tmp_path / "package.json"
    package.write_text('{"name": "@openai/codex", "version": "4.5.6"}')
    program.symlink_to(tmp_path / "bin/real")
    assert harness.detect(env).version == "4.5.6"


ENTRIES: dict[str, tuple[str, str, dict[Transport, Any]]] = {
    "claude-code": (".claude.json", "mcpServers", {"stdio": "command", "http": "url"}),
    "cursor": (".cursor/mcp.json", "mcpServers", {"stdio": "command", "http": "url"}),
    "copilot": (".copilot/mcp-config.json", "mcpServers", {"stdio": "command", "http": "url"}),
    "kiro": (".kiro/settings/mcp.json", "mcpServers", {"stdio": "command", "http": "url"}),
    "amazon-q": (".aws/amazonq/mcp.json", "mcpServers", {"stdio": "command", "http": "url"}),
    "qwen": (".qwen/settings.json", "mcpServers", {"stdio": "command", "http": "httpUrl"}),
    "kimi": (".kimi-code/mcp.json", "mcpServers", {"stdio": "command", "http": "url"}),
    "droid": (".factory/mcp.json", "mcpServers", {"stdio": "command", "http": "url"}),
    "codex": (".codex/config.toml", "mcp_servers", {"stdio": "command", "http": "url"}),
}


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("name", ENTRIES)
def test_the_entries_of_each_harness(name: str, transport: Transport, tmp_path: Path) -> None:
    """The server as the harness reads it, and an instruction or a skill beside it."""
    path, table, keys = ENTRIES[name]
    install(name, options(tmp_path, transport=transport, url="https://hub.example"))
    written = (tmp_path / path).read_text()
    server = (tomllib.loads if path.endswith("toml") else json.loads)(written)[table]["tieline"]
    assert server[keys[transport]] == {"stdio": "/opt/bin/tieline", "http": "https://hub.example/mcp"}[transport]
    assert "TIELINE_MESH_KEY" in written if transport == "http" else server["args"] == ["mcp"]
    others = [path for path in tmp_path.rglob("*.md") if "register_agent" in path.read_text()]
    assert others, "nothing tells its agents what to do"


@pytest.mark.parametrize("name", ["codex", "copilot", "claude-code"])
def test_a_skill_says_what_it_is_and_when_to_use_it(name: str, tmp_path: Path) -> None:
    """Harnesses list skills by the name and the description in their first lines."""
    install(name, options(tmp_path))
    (skill,) = tmp_path.rglob("SKILL.md")
    _, head, body = skill.read_text().split("---\n", 2)
    fields = dict(re.findall(r"^(\w+):(.*(?:\n  .*)*)", head, re.MULTILINE))
    assert fields["name"].strip() == skill.parent.name == "tieline"
    assert "/tieline" in fields["description"] and "other agents" in fields["description"]
    assert "`send_message`" in body and "`fetch_messages`" in body


def test_copilots_hooks_are_where_it_looks_for_them(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    install("copilot", options(tmp_path))
    install("copilot", options(tmp_path, project=str(project)))
    for path in (tmp_path / ".copilot/hooks/tieline.json", project / ".github/copilot/settings.local.json"):
        hooks = json.loads(path.read_text())["hooks"]
        assert set(hooks) == {"sessionStart", "userPromptSubmitted", "postToolUse", "agentStop", "sessionEnd"}
        for event, (handler,) in hooks.items():
            assert handler["type"] == "command" and handler["bash"].split()[-1] == event


def test_copilots_hook_for_permissions_denies_nothing_when_it_cannot_be_started(tmp_path: Path) -> None:
    """Copilot takes a hook that fails for a denial. It is there only for a person who has agreed."""
    install("copilot", options(tmp_path, attach=True))
    written = (tmp_path / ".copilot/hooks/tieline.json").read_text()
    (handler,) = json.loads(written)["hooks"]["permissionRequest"]
    assert "permissionRequest" in handler["bash"]
    gone = handler["bash"].replace("/opt/bin/python", str(tmp_path / "no/python"))
    assert str(tmp_path / "no/python") in gone
    ended = subprocess.run(["/bin/bash", "-c", gone], input=b"{}", capture_output=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, b"")
    assert install("copilot", options(tmp_path, attach=True)) is False, "what was installed is known again"


@pytest.mark.parametrize("name", registry.names())
def test_every_harness_says_what_it_is(name: str) -> None:
    harness = registry.create(name)
    assert harness.name == name and harness.display_name
    assert harness.capabilities.transports and harness.capabilities.instructions


@pytest.mark.parametrize(
    "name", [name for name in registry.names() if registry.create(name).capabilities.slash_command]
)
def test_what_a_person_types_shows_members_and_messages_in_one_step(name: str, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    count = 0
    for given in (options(tmp_path), options(tmp_path, project=str(tmp_path / "project"))):
        install(name, given)
        for path in tmp_path.rglob("*"):
            words = path.read_text() if path.is_file() else ""
            count += path.suffix in (".md", ".toml") and "`list_agents`" in words and "`fetch_messages`:" in words
    assert count, "nothing to type"


@pytest.mark.parametrize("scope", SCOPES)
def test_claude_codes_tool_calls_and_teams_are_left_alone(scope: str, tmp_path: Path) -> None:
    """No hook comes in a turn, and nothing of ours is where its own agent teams keep their mail."""
    given = options(tmp_path, project=str(tmp_path) if scope == "project" else "", hooks=True)
    changed = {
        Path(change.path).relative_to(tmp_path)
        for change in installer.plan_install(registry.create("claude-code"), given)
    }
    install("claude-code", given)
    assert not [path for path in changed if {"teams", "tasks"} & set(path.parts)]
    (settings,) = [tmp_path / path for path in changed if path.name.startswith("settings")]
    assert set(json.loads(settings.read_text())["hooks"]) == {"SessionStart", "SessionEnd"}
    pages = Path(__file__).parents[2] / "docs"
    page = " ".join((pages / "harnesses.md").read_text().split())
    assert "Claude Code's own agent teams are something else, and are left alone." in page
