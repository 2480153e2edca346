"""Going on, options, bad input."""

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from ...drivers.base import Attachment, McpServer, Prompt
from ...errors import Unsupported, UsageError
from ...events import Ask, Event, Text, ToolResult
from ...policy import CAPABILITIES, Policy
from ...script import Call, Run, Say
from ...sessions.startup_files_fingerprint import fingerprint
from .. import mcp_server
from ..model_rig import ModelRig
from ..rig import Rig
from ..stream_checks import collect, done, of
from .base import PNG, PNG_BASE64, DriverContractBase, eventually, yes


class OptionContract(DriverContractBase):
    async def test_resume(self, rig: Rig, cwd: Path) -> None:
        if not rig.driver.features.resume:
            with pytest.raises(Unsupported, match="resume"):
                self.session(rig, cwd, resume="some-id")
            return
        rig.play([Say("I will remember.")], [Say("You said albatross.")])
        async with self.session(rig, cwd) as session:
            seen = await collect(session.turn("remember the word albatross"))
            native = session.native_id
            assert native
            assert done(seen).native_id == native
        before = rig.heard().count("albatross")
        async with self.session(rig, cwd, resume=native) as session:
            seen = await collect(session.turn("which word was it"))
            assert done(seen).text.strip() == "You said albatross."
        assert rig.heard().count("albatross") > before, "the earlier turn was sent to the model again"
        self.saw(rig, "resume", seen)

    async def test_warm(self, rig: Rig, cwd: Path) -> None:
        """A session that was opened ahead waits for its first prompt and calls no model before it. The agent must not
        change the files that it reads at its start: the pool would never use the session."""
        if not rig.driver.features.warm:
            pytest.skip(f"{rig.driver.name} gains nothing by being opened ahead")
        async with self.session(rig, cwd):
            pass  # the first start writes files into a new home
        rig.play([Say("Here.")])
        async with self.session(rig, cwd) as session:
            before, heard = fingerprint(session.spec.cwd, session.spec.env), rig.heard()
            await session.warm_up()
            assert rig.heard() == heard
            seen = await collect(session.turn("hello"))
            assert done(seen).text.strip() == "Here."
            assert fingerprint(session.spec.cwd, session.spec.env) == before
        self.saw(rig, "warm", seen)

    async def test_resume_unknown(self, rig: Rig, cwd: Path) -> None:
        if not rig.driver.features.resume:
            pytest.skip(f"{rig.driver.name} cannot resume")
        nowhere = "00000000-0000-4000-8000-000000000000"
        seen, problem = await self.attempt(rig, cwd, resume=nowhere)
        assert done(seen).status == "error"
        assert done(seen).error or str(problem), "it says why"
        assert not of(seen, Text), "nobody answers in a session that is not the one that was meant"

    async def test_fork(self, rig: Rig, cwd: Path) -> None:
        if not rig.driver.features.fork:
            with pytest.raises(Unsupported, match="fork"):
                self.session(rig, cwd, resume="some-id" if rig.driver.features.resume else "", fork=True)
            return
        rig.play([Say("I will remember.")], [Say("You said albatross.")])
        async with self.session(rig, cwd) as session:
            await collect(session.turn("remember the word albatross"))
            native = session.native_id
        before = rig.heard().count("albatross")
        async with self.session(rig, cwd, resume=native, fork=True) as session:
            seen = await collect(session.turn("which word was it"))
            assert done(seen).status == "success"
            assert session.native_id != native
        assert rig.heard().count("albatross") > before, "it goes on from what was said"
        self.saw(rig, "fork", seen)

    async def test_steer(self, rig: Rig, cwd: Path) -> None:
        if not rig.driver.features.steer:
            async with self.session(rig, cwd) as session:
                with pytest.raises(Unsupported, match="steer"):
                    await session.steer("the other way")
            return
        self.able(rig, "tools")
        rig.play([Run("touch started; while [ ! -e steered ]; do sleep 0.05; done")], [Say("Heard.")])
        async with self.session(rig, cwd) as session:

            async def steer() -> None:
                await eventually((cwd / "started").exists, "the command never started")
                await session.steer("mind the pelican")
                (cwd / "steered").touch()

            steering = asyncio.create_task(steer())
            seen = await collect(session.turn("run it"))
            await steering
        assert done(seen).status == "success"
        assert "mind the pelican" in rig.heard()
        self.saw(rig, "steer", seen)

    async def test_system_of_one_turn(self, rig: Rig, cwd: Path) -> None:
        """The instruction reaches the model with the turn: apart from the prompt if the agent can do that, else before
        the prompt."""
        rig.play([Say("Aye.")], [Say("Yes.")])
        async with self.session(rig, cwd) as session:
            seen = await collect(session.turn(Prompt("hello", system="Speak like a lighthouse keeper.")))
            assert done(seen).status == "success"
            heard = rig.heard()
            assert "lighthouse keeper" in heard
            framed = "<system_context>" in heard
            assert framed != rig.driver.features.turn_system
            if not framed:
                self.saw(rig, "turn_system", seen)
            long = f"Speak {'very ' * 5000}slowly, says the pelican."
            assert done(await collect(session.turn(Prompt("and now", system=long)))).status == "success"
            assert long in rig.heard()

    async def test_system(self, rig: Rig, cwd: Path) -> None:
        if rig.driver.features.system == "none":
            with pytest.raises(Unsupported, match="system"):
                self.session(rig, cwd, system="Speak like a ferryman.")
            return
        rig.play([Say("Ahoy.")])
        async with self.session(rig, cwd, system="Speak like a ferryman.") as session:
            seen = await collect(session.turn("hello"))
        assert "Speak like a ferryman." in rig.heard()
        self.saw(rig, "system", seen)

    @pytest.mark.parametrize(
        ("option", "value"),
        [
            ("effort", "no-such-effort"),
            ("max_turns", 1),
            ("max_budget_usd", 0.5),
            ("allowed_tools", ("x",)),
            ("disallowed_tools", ("x",)),
            ("mcp_servers", {"x": McpServer(command=("true",))}),
        ],
    )
    async def test_undeclared_is_refused(self, rig: Rig, cwd: Path, option: str, value: object) -> None:
        able = getattr(rig.driver.features, option)
        if able and option != "effort":
            assert getattr(self.session(rig, cwd, **{option: value}).spec, option) == value
        else:
            with pytest.raises(Unsupported, match=option):
                self.session(rig, cwd, **{option: value})
        if option == "effort":
            for effort in able:
                assert self.session(rig, cwd, effort=effort).spec.effort == effort

    async def test_model(self, rig: Rig, cwd: Path) -> None:
        """The agent asks its provider for the chosen model, in this session only."""
        if not rig.driver.features.model:
            with pytest.raises(Unsupported, match="model"):
                self.session(rig, cwd, model="another")
            return
        if not isinstance(rig, ModelRig):
            pytest.skip(f"{rig.driver.name}: its model does not hear its name")
        rig.play([Say("Here.")], [Say("Here.")])
        name = rig.another_model.rpartition("/")[2]
        async with self.session(rig, cwd, model=rig.another_model) as session:
            seen = await collect(session.turn("hello"))
        assert name in rig.model.called_as[-1]
        async with self.session(rig, cwd) as session:
            await collect(session.turn("hello"))
        assert name not in rig.model.called_as[-1], "the next session has the usual one"
        self.saw(rig, "model", seen)

    async def test_effort(self, rig: Rig, cwd: Path) -> None:
        if "low" not in rig.driver.features.effort or not isinstance(rig, ModelRig):
            pytest.skip(f"{rig.driver.name} takes no effort")
        rig.play([Say("Here.")])
        async with self.session(rig, cwd, effort="low") as session:
            seen = await collect(session.turn("hello"))
        assert "low" in _efforts(rig.model.requests[-1]), "it reached the model"
        self.saw(rig, "effort", seen)

    async def test_allowed_tools(self, rig: Rig, cwd: Path) -> None:
        """A tool that no line of the policy covers is called without an ask if it is allowed by its name. If only
        others are allowed, the agent asks, or does not offer the tool."""
        if not rig.driver.features.allowed_tools or not isinstance(rig, ModelRig):
            pytest.skip(f"{rig.driver.name} has no allowed_tools")
        tool = rig.server_tool.format(server="words", tool="speak")
        servers = {"words": McpServer(command=mcp_server.command_line("speak", "true"))}

        async def call(allowed: str) -> tuple[list[Event], bool]:
            rig.play([Call(tool)], [Say("Called.")])
            options: dict[str, Any] = {"mcp_servers": servers, "allowed_tools": (allowed,)}
            async with self.session(rig, cwd, policy=Policy(), on_ask=yes, **options) as session:
                seen = await collect(session.turn("call it"))
            unasked = not of(seen, Ask) and [result.status for result in of(seen, ToolResult)] == ["ok"]
            return seen, unasked

        assert not (await call("another"))[1]
        seen, unasked = await call(tool)
        assert unasked
        self.saw(rig, "allowed_tools", seen)

    async def test_disallowed_tools(self, rig: Rig, cwd: Path) -> None:
        if not rig.driver.features.disallowed_tools or not isinstance(rig, ModelRig):
            pytest.skip(f"{rig.driver.name} switches off no tools")
        rig.play([Run("touch switched-off.txt")], [Say("It is not there.")])
        async with self.session(rig, cwd, disallowed_tools=(rig.tool(Run("")),)) as session:
            seen = await collect(session.turn("touch it"))
        assert not (cwd / "switched-off.txt").exists()
        self.saw(rig, "disallowed_tools", seen)

    async def test_max_budget(self, rig: Rig, cwd: Path) -> None:
        if not rig.driver.features.max_budget_usd:
            pytest.skip(f"{rig.driver.name} has no max_budget_usd")
        rig.play(*[[Run(f"echo {number}")] for number in range(5)])
        async with self.session(rig, cwd, max_budget_usd=0.000001) as session:
            seen = await collect(session.turn("spend"))
        assert done(seen).status == "max_budget" and done(seen).error
        assert (done(seen).tokens or pytest.fail("no tokens")).cost_usd
        self.saw(rig, "max_budget_usd", seen)

    async def test_max_turns(self, rig: Rig, cwd: Path) -> None:
        if not rig.driver.features.max_turns:
            pytest.skip(f"{rig.driver.name} has no max_turns")
        rig.play(*[[Run(f"echo {number}")] for number in range(5)])
        async with self.session(rig, cwd, max_turns=2) as session:
            seen = await collect(session.turn("go on and on"))
        assert done(seen).status == "max_turns"
        self.saw(rig, "max_turns", seen)

    async def test_mcp_server(self, rig: Rig, cwd: Path) -> None:
        """The server is started by the agent, with its environment."""
        if not rig.driver.features.mcp_servers:
            pytest.skip(f"{rig.driver.name} takes no MCP servers")
        self.able(rig, "mcp_server")
        proof = cwd / "mcp-was-started"
        started = ("/bin/sh", "-c", 'touch "$PROOF"; exec "$@"', "sh")
        # A server that answers: some agents wait for it before they open a session.
        server = McpServer(command=(*started, *mcp_server.command_line("nothing", "true")), env={"PROOF": str(proof)})
        rig.play([Say("Done.")])
        async with self.session(rig, cwd, mcp_servers={"proof": server}) as session:
            seen = await collect(session.turn("hello"))
            await eventually(proof.exists, "the agent never started the server", timeout=20)
        self.saw(rig, "mcp_servers", seen)

    async def test_attachment(self, rig: Rig, cwd: Path) -> None:
        image = cwd / "dot.png"
        image.write_bytes(PNG)
        prompt = Prompt("what is this", (Attachment(path=str(image), media_type="image/png", name="dot.png"),))
        async with self.session(rig, cwd) as session:
            if not {"image/png", "image/*", "*/*"} & set(rig.driver.features.attachments):
                with pytest.raises(Unsupported, match="attachments"):
                    await collect(session.turn(prompt))
                return
            rig.play([Say("A dot.")])
            seen = await collect(session.turn(prompt))
        assert done(seen).status == "success"
        assert PNG_BASE64[:60] in rig.heard(), "the picture reached the model"
        self.saw(rig, "attachments", seen)

    async def test_bad_input(self, rig: Rig, cwd: Path) -> None:
        with pytest.raises(UsageError, match="no directory"):
            self.session(rig, cwd / "missing")
        (cwd / "file").touch()
        with pytest.raises(UsageError, match="not a directory"):
            self.session(rig, cwd / "file")
        async with self.session(rig, cwd) as session:
            with pytest.raises(UsageError, match="empty"):
                await collect(session.turn("   "))

    async def test_probe(self, rig: Rig) -> None:
        probe = await rig.driver.probe(rig.options.get("env", {}))
        assert probe.found, probe
        assert probe.version

    async def test_receipt_for_every_policy(self, rig: Rig) -> None:
        from ...policy import every_policy

        for policy in every_policy():
            receipt = rig.driver.enforce(policy)
            for capability in CAPABILITIES:
                assert receipt.of(capability).level == policy.level(capability)


def _efforts(body: object) -> set[object]:
    """The efforts in a request to a model, wherever its format has them."""
    if isinstance(body, list):
        return {effort for each in cast("list[object]", body) for effort in _efforts(each)}
    efforts: set[object] = set()
    for name, value in cast("dict[str, object]", body).items() if isinstance(body, dict) else ():
        efforts |= {value} if "effort" in name and isinstance(value, str) else _efforts(value)
    return efforts
