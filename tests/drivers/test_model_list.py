"""The models that agents list: taken from whatever they tell, kept, and compared with what somebody wants."""

import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from tieline.config import Config
from tieline.drivers import model_list as m
from tieline.drivers.codex.driver import Codex
from tieline.drivers.codex.thread_params import CodexOptions
from tieline.drivers.model_list import ModelList, ModelListFile, ask_models, nearest_models, unlisted_model
from tieline.drivers.scripted import Scripted
from tieline.errors import AgentError, AgentStartFailed, Unsupported
from tieline.testing.rig import scratch_env

LISTED = ModelList(names=("gpt-6-sol", "gpt-6-luna", "openrouter/qwen-3"), efforts={"gpt-6-sol": ("low",)})

WANTED = {
    "gpt-6-sol": (),  # it is there
    "gpt-6-soll": ("gpt-6-sol",),
    "gpt6-luna": ("gpt-6-luna",),
    "qwen-3": ("openrouter/qwen-3",),  # a part of a name
    "mistral": None,  # nothing is near
}


@pytest.mark.parametrize(("wanted", "near"), WANTED.items())
def test_a_model_that_is_not_listed_is_told_with_the_nearest(wanted: str, near: tuple[str, ...] | None) -> None:
    problem = unlisted_model(LISTED, wanted)
    if near == ():
        assert problem == ""
    elif near is None:
        assert problem == "it is not in the agent's list of models"
    else:
        assert nearest_models(LISTED.names, wanted)[0] == near[0]
        assert near[0] in problem


def test_without_a_list_nothing_is_said() -> None:
    assert unlisted_model(ModelList(), "anything") == ""


def test_whatever_an_agent_tells_is_bounded() -> None:
    models = [(f"m{number}", [f"e{level}" for level in range(50)]) for number in range(300)]
    listed = m.model_list([*models, (7, None), ("", []), ("x" * 201, [])], certain=True)
    assert len(listed.names) == m.MAX_MODELS and len(listed.efforts["m0"]) == m.MAX_EFFORTS
    assert not listed.certain, "there are more than the list has"
    assert m.model_list([("a", None), ("b", [])], certain=True) == ModelList(
        names=("a", "b"), efforts={"b": ()}, certain=True
    ), "not told is another thing than none"


def test_a_kept_list_is_of_a_program_a_version_and_a_time(tmp_path: Path) -> None:
    path = tmp_path / "state" / "models.json"
    path.parent.mkdir()
    ours, other = Codex(), Codex(CodexOptions(command=("/opt/codex",)))
    ModelListFile(path).keep(ours, "codex", "1.0", LISTED)
    assert path.stat().st_mode & 0o777 == 0o600
    kept = ModelListFile(path).get(ours, "codex")  # as another process reads it
    assert kept is not None and kept.models == LISTED
    assert not kept.stale("1.0") and kept.stale("1.1")
    assert replace(kept, when=time.time() - m.FRESH_S - 1).stale("1.0")
    assert replace(kept, when=time.time() + 3600).stale("1.0"), "a clock that was wrong"
    assert ModelListFile(path).get(other, "codex") is None, "another program by the same name"
    assert ModelListFile(path).get(ours, "work") is None
    path.write_text("{")
    assert ModelListFile(path).get(ours, "codex") is None


class Lister(Scripted):
    """Tells its models as the test says; what it does wrong is what is tested."""

    def __init__(self, tells: ModelList | Exception) -> None:
        super().__init__([])
        self.tells = tells
        self.asked: list[str] = []

    async def list_models(self, cwd: str, env: Mapping[str, str]) -> ModelList:
        self.asked.append(cwd)
        if isinstance(self.tells, Exception):
            raise self.tells
        return self.tells


@pytest.mark.parametrize(
    ("tells", "error"),
    [
        (AgentStartFailed("x", "it did not come up"), "it did not come up"),
        (RuntimeError("nobody thought of this"), "RuntimeError: nobody thought of this"),
        (TimeoutError(), "it did not list its models within"),
    ],
)
async def test_an_agent_that_does_not_tell_is_an_error_of_that_agent(
    tmp_path: Path, tells: Exception, error: str
) -> None:
    config = Config(environ=scratch_env(tmp_path / "home", path="/usr/bin:/bin"))
    with pytest.raises(AgentError, match=error):
        await ask_models(Lister(tells), config)


async def test_it_is_asked_in_an_empty_directory_of_ours(tmp_path: Path) -> None:
    config = Config(environ={**scratch_env(tmp_path / "home", path="/usr/bin:/bin"), "TIELINE_HOME": str(tmp_path)})
    lister = Lister(LISTED)
    assert await ask_models(lister, config) == LISTED
    assert await ask_models(lister, config, "/elsewhere") == LISTED
    assert lister.asked == [str(tmp_path / "no-project"), "/elsewhere"]
    assert (tmp_path / "no-project").stat().st_mode & 0o777 == 0o700
    with pytest.raises(Unsupported, match="a list of its models"):
        await ask_models(Scripted([]), config)
