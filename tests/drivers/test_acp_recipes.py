"""How agents are set up over the scripted model, as data of their presets. No agent is started."""

from pathlib import Path
from typing import Any, cast

import pytest

from tieline.config import Config
from tieline.drivers.acp_presets import PRESETS
from tieline.drivers.acp_recipes import CLAUDE, Recipe, ToolRecipe
from tieline.errors import UsageError
from tieline.script import AnyStep, Call, Get, Inquire, Outline, Propose, Run, Say, Write
from tieline.testing import recipes
from tieline.testing.installed_agents import set_up_of

RECIPES = {name: preset.recipe for name, preset in PRESETS.items() if preset.recipe}
STEPS: dict[str, AnyStep] = {
    "write": Write("/w/a-path", "a {path}\nend\n"),
    "run": Run("a-command {url}"),
    "get": Get("http://127.0.0.1:1/an-address"),
    "inquire": Inquire("a-question?", ("Red", "Blue")),
    "outline": Outline(("a-first", "a-second"), done=1),
    "propose": Propose("a-plan"),
}


def texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for each in cast("dict[str, Any]", value).values() for text in texts(each)]
    if isinstance(value, list):
        return [text for each in cast("list[Any]", value) for text in texts(each)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("name", RECIPES)
def test_a_step_is_said_whole_in_the_words_of_each_agent(name: str) -> None:
    tools = RECIPES[name].tools
    for kind, step in STEPS.items():
        if kind not in tools:
            with pytest.raises(ValueError, match="no tool"):
                recipes.tool_call(tools, step)
            continue
        tool, given = recipes.tool_call(tools, step)
        text = "\n".join(texts(given))
        assert tool
        for word in {
            "write": ("/w/a-path", "a {path}"),
            "run": ("a-command {url}",),
            "get": ("an-address",),
            "inquire": ("a-question?", "Red", "Blue"),
            "outline": ("a-first", "a-second"),
            "propose": ("a-plan",),
        }[kind]:
            assert word in text, f"{kind}: what the step says is no template"
        left = text.replace("a {path}", "").replace("a-command {url}", "")
        assert "{" not in left, f"{kind}: {left}"


@pytest.mark.parametrize("name", RECIPES)
def test_files_and_variables_lead_to_the_model_and_nowhere_else(name: str, tmp_path: Path) -> None:
    url = "http://127.0.0.1:1234"
    recipe = RECIPES[name]
    recipes.write_files(recipe, url=url, home=tmp_path)
    written = [file.read_text() for file in tmp_path.rglob("*") if file.is_file()]
    text = "\n".join([*written, *recipes.variables(recipe, url=url, home=tmp_path).values()])
    assert url in text and "{url}" not in text and "{home}" not in text
    assert not [part for part in text.split("://")[1:] if not part.startswith("127.0.0.1:")]


def test_what_needs_a_tool_that_there_is_none_for_is_not_tried() -> None:
    bare = Recipe(api="chat", tools={"run": ToolRecipe("bash")}, limits=("usage_whole",))
    assert recipes.limits(bare) == {"tools", "fetch", "question", "plan", "propose", "usage_whole"}
    assert recipes.limits(CLAUDE) == set()


def test_a_tool_that_has_to_come_first_comes_in_a_reply_of_its_own() -> None:
    played = list(recipes.with_tools_before(CLAUDE.tools, [[Propose("a-plan")], [Say("Done.")]]))
    assert played == [[Call("EnterPlanMode")], [Propose("a-plan")], [Say("Done.")]]


def test_a_person_gives_one_to_an_agent_of_their_own() -> None:
    def configured(**options: Any) -> Config:
        return Config(agents={"mine": {"type": "acp", "command": ["mine"], **options}})

    assert set_up_of("mine", configured()) is None
    assert set_up_of("mine", configured(recipe={"api": "chat"})) is not None
    with pytest.raises(UsageError, match=r"nonsense.*recipe\.api"):
        set_up_of("mine", configured(recipe={"api": "nonsense"}))
