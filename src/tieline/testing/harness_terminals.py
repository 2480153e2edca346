"""The real agents in a person's own terminal, over the scripted model: started plainly, in a home of their own."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import msgspec

from ..drivers.acp_presets import PRESETS
from .model_rig import ModelRig
from .rigs.acp import CopilotRig, DroidRig, GeminiRig, KimiRig, QwenRig, VibeRig
from .rigs.claude_code import ClaudeCodeRig
from .rigs.codex import MODEL, codex_rig
from .rigs.opencode import OpenCodeRig
from .rigs.pi import MODEL as PI_MODEL
from .rigs.pi import PiRig
from .tmux_terminal import TmuxTerminal


class HarnessHome:
    """A person's home and project, with one harness set up. `terminal()` is the harness in a terminal there; several
    may run at once, all over one scripted model."""

    def __init__(self, rig: ModelRig, home: Path, project: Path, argv: tuple[str, ...], env: Mapping[str, str]) -> None:
        self.rig = rig
        self.home = home
        self.project = project
        self.argv = argv
        self.env = env

    def terminal(self, *arguments: str) -> AbstractAsyncContextManager[TmuxTerminal]:
        return self.terminal_of(*self.argv, *arguments)

    @asynccontextmanager
    async def terminal_of(self, *command: str) -> AsyncGenerator[TmuxTerminal, None]:
        """A terminal in which a command starts the harness, once it takes input."""
        async with TmuxTerminal(command, self.project, self.env) as terminal:
            await terminal.until(
                lambda screen: any(mark in screen for mark in READY), "the harness takes input", timeout=START_S
            )
            yield terminal


START_S = 180.0
"""A harness takes input within this time, also on a machine that runs many others."""
READY = ("? for shortcuts", "ctrl+p", "Type your message", "scripted •", "tokens (0%)", "Trust this folder?",
         "? help", "context: ", "? for help")  # fmt: skip
"""What each shows in or below its empty input."""

HarnessHomeFactory = Callable[[Path, Path], AbstractAsyncContextManager[HarnessHome]]
"""Of an empty directory, and of the directory with the npm agents."""


@asynccontextmanager
async def claude_code_home(root: Path, binaries: Path) -> AsyncGenerator[HarnessHome, None]:
    home, project = root / "home", _project(root)
    async with ClaudeCodeRig(home) as rig:
        known = {
            "hasCompletedOnboarding": True,
            "theme": "dark",
            "customApiKeyResponses": {"approved": [rig.options["env"]["ANTHROPIC_API_KEY"][-20:]]},
            "projects": {str(project): {"hasTrustDialogAccepted": True}},
        }
        (home / ".claude.json").write_bytes(msgspec.json.encode(known))
        spec = find_spec("claude_agent_sdk")
        assert spec is not None
        assert spec.origin is not None
        program = Path(spec.origin).parent / "_bundled" / "claude"
        env = {name: value for name, value in rig.options["env"].items() if name != "MCP_TIMEOUT"}  # as people run it
        yield HarnessHome(rig, home, project, (str(program), "--permission-mode", "default"), env)


@asynccontextmanager
async def codex_home(root: Path, binaries: Path) -> AsyncGenerator[HarnessHome, None]:
    home, project = root / "home", _project(root)
    program = binaries / "codex"
    async with codex_rig(home, program) as rig:
        with (home / ".codex" / "config.toml").open("a") as config:
            config.write(f'\n[projects."{project}"]\ntrust_level = "trusted"\n')
            config.write(f'\n[notice.model_migrations]\n"{MODEL}" = "gpt-6-sol"\n')  # it has been offered a newer model
        yield HarnessHome(rig, home, project, (str(program),), rig.env)


@asynccontextmanager
async def opencode_home(root: Path, binaries: Path) -> AsyncGenerator[HarnessHome, None]:
    home, project = root / "home", _project(root)
    program = str(binaries / "opencode")
    async with OpenCodeRig(home, program) as rig:
        yield HarnessHome(rig, home, project, (program,), rig.env)


@asynccontextmanager
async def gemini_home(root: Path, binaries: Path) -> AsyncGenerator[HarnessHome, None]:
    home, project = root / "home", _project(root)
    async with GeminiRig(home, binaries) as rig:
        # Where a folder is not trusted, its MCP servers are off.
        (home / ".gemini").mkdir(exist_ok=True)
        (home / ".gemini" / "trustedFolders.json").write_bytes(msgspec.json.encode({str(project): "TRUST_FOLDER"}))
        argv = (str(binaries / "gemini"), "-m", rig.model_name, "--approval-mode", "yolo")
        yield HarnessHome(rig, home, project, argv, rig.options["env"])


@asynccontextmanager
async def qwen_home(root: Path, binaries: Path) -> AsyncGenerator[HarnessHome, None]:
    home, project = root / "home", _project(root)
    async with QwenRig(home, binaries) as rig:
        yield HarnessHome(rig, home, project, (str(binaries / "qwen"),), rig.options["env"])


@asynccontextmanager
async def pi_home(root: Path, binaries: Path) -> AsyncGenerator[HarnessHome, None]:
    """`binaries` has Pi, and the Node.js that it needs."""
    home, project = root / "home", _project(root)
    program = binaries / "pi"
    async with PiRig(home, program, binaries) as rig:
        yield HarnessHome(rig, home, project, (str(program), "--model", PI_MODEL), rig.options["env"])


@asynccontextmanager
async def vibe_home(root: Path, binaries: Path) -> AsyncGenerator[HarnessHome, None]:
    home, project = root / "home", _project(root)
    async with VibeRig(home, binaries) as rig:
        argv = (str(binaries / "vibe"), "--agent", "auto-approve")
        yield HarnessHome(rig, home, project, argv, rig.options["env"])


@asynccontextmanager
async def copilot_home(root: Path, binaries: Path) -> AsyncGenerator[HarnessHome, None]:
    home, project = root / "home", _project(root)
    async with CopilotRig(home, binaries) as rig:
        (home / ".copilot").mkdir(exist_ok=True)
        (home / ".copilot/config.json").write_bytes(msgspec.json.encode({"trustedFolders": [str(project)]}))
        env = {**rig.options["env"], "COPILOT_MODEL": rig.model_name}
        yield HarnessHome(rig, home, project, (str(binaries / "copilot"), "--allow-all-tools"), env)


@asynccontextmanager
async def kimi_home(root: Path, binaries: Path) -> AsyncGenerator[HarnessHome, None]:
    """`binaries` has Kimi Code, and the Node.js that it needs."""
    home, project = root / "home", _project(root)
    async with KimiRig(home, binaries) as rig:
        name = f"wd_{project.name}_{sha256(str(project).encode()).hexdigest()[:12]}"
        trusted = home / ".kimi-code/workspace-trust" / name
        trusted.parent.mkdir(parents=True)
        trusted.write_bytes(msgspec.json.encode({"root": str(project), "trustedAt": 0}))
        yield HarnessHome(rig, home, project, (str(binaries / "kimi"), "--yolo"), rig.options["env"])


@asynccontextmanager
async def droid_home(root: Path, binaries: Path) -> AsyncGenerator[HarnessHome, None]:
    """Without its maker's network, where it would ask who somebody is."""
    home, project = root / "home", _project(root)
    async with DroidRig(home, binaries) as rig:
        file = home / ".factory" / "settings.json"
        settings = msgspec.json.decode(file.read_bytes())
        folders = (project, *project.parents)  # it asks about the one that is a repository
        trusted = {str(folder): {"trustedAt": "2026-01-01T00:00:00.000Z"} for folder in folders}
        more = {"trustedFolders": trusted, "logoAnimation": "off", "sessionDefaultSettings": {"model": rig.model_name}}
        file.write_bytes(msgspec.json.encode({**settings, **more}))
        env = {**rig.options["env"], **PRESETS["droid"].env, "FACTORY_AIRGAP_ENABLED": "true"}
        yield HarnessHome(rig, home, project, (str(binaries / "droid"), "--auto", "high"), env)


HOMES: Mapping[str, HarnessHomeFactory] = {
    "claude-code": claude_code_home,
    "codex": codex_home,
    "opencode": opencode_home,
    "gemini": gemini_home,
}


def _project(root: Path) -> Path:
    project = root / "project"
    project.mkdir(parents=True, exist_ok=True)  # several harnesses may share it
    return project
