"""The scripted driver against the contract."""

from pathlib import Path

import pytest

from tieline.api import open_session
from tieline.drivers.scripted import Scripted
from tieline.errors import TielineError
from tieline.testing.driver_contract import DriverContract
from tieline.testing.policy_contract import PolicyContract
from tieline.testing.rigs.scripted import ScriptedRig
from tieline.testing.stream_checks import collect, done


class TestScripted(DriverContract):
    TURN_LIMIT_S = 1.0

    @pytest.fixture
    async def rig(self, tmp_path: Path) -> ScriptedRig:
        return ScriptedRig(tmp_path / "home")


class TestScriptedPolicies(PolicyContract):
    @pytest.fixture
    async def rig(self, tmp_path: Path) -> ScriptedRig:
        return ScriptedRig(tmp_path / "home")


async def test_its_model_is_a_script_where_it_names_one(tmp_path: Path) -> None:
    (tmp_path / "hello.json").write_text('[[{"do": "say", "text": "Hello from the file."}]]')
    for model, answer in (("hello.json", "Hello from the file."), ("a-name", "Done.")):
        async with open_session(Scripted([]), cwd=tmp_path, model=model) as session:
            assert done(await collect(session.turn("go"))).text == answer
    with pytest.raises(TielineError, match=r"missing\.json' cannot be read"):
        async with open_session(Scripted([]), cwd=tmp_path, model="missing.json"):
            pass
