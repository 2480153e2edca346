"""Going on, options, bad input."""

import asyncio
from pathlib import Path

import pytest

from ...drivers.base import Attachment, McpServer, Prompt
from ...errors import Unsupported, UsageError
from ...events import Text
from ...policy import CAPABILITIES
from ...script import Run, Say
from ...sessions.startup_files_fingerprint import fingerprint
from .. import mcp_server
from ..rig import Rig
from ..stream_checks import collect, done, of
from .base import PNG, PNG_BASE64, DriverContractBase, eventually


class OptionContract(DriverContractBase):
    async def test_resume(self, rig: Rig, place: Path) -> None:
        if not rig.driver.features.resume:
            with pytest.raises(Unsupported, match="resume"):
                self.session(rig, place, resume="some-id")
            return
        rig.play([Say("I will remember.")], [Say("You said albatross.")])
        async with self.session(rig, place) as session:
            seen = await collect(session.turn("remember the word albatross"))
            native = session.native_id
            assert native
            assert done(seen).native_id == native
        before = rig.heard().count("albatross")
        async with self.session(rig, place, resume=native) as session:
            seen = await collect(session.turn("which word was it"))
            assert done(seen).text.strip() == "You said albatross."
        assert rig.heard().count("albatross") > before, "the earlier turn was sent to the model again"

    async def test_warm(self, rig: Rig, place: Path) -> None:
        """It waits for its first prompt, and has nobody asked before. What it writes by itself is no change of what
        it reads at its start: the pool would never use it."""
        if not rig.driver.features.warm:
            pytest.skip(f"{rig.driver.name} gains nothing by being opened ahead")
        async with self.session(rig, place):
            pass  # a new home gets what it gets at the first start
        rig.play([Say("Here.")])
        async with self.session(rig, place) as session:
            before, heard = fingerprint(session.spec.cwd, session.spec.env), rig.heard()
            await session.warm_up()
            assert rig.heard() == heard
            seen = await collect(session.turn("hello"))
            assert done(seen).text.strip() == "Here."
            assert fingerprint(session.spec.cwd, session.spec.env) == before

    async def test_resume_unknown(self, rig: Rig, place: Path) -> None:
        if not rig.driver.features.resume:
            pytest.skip(f"{rig.driver.name} cannot resume")
        nowhere = "00000000-0000-4000-8000-000000000000"
        seen, problem = await self.attempt(rig, place, resume=nowhere)
        assert done(seen).status == "error"
        assert done(seen).error or str(problem), "it says why"
        assert not of(seen, Text), "nobody answers in a session that is not the one that was meant"

    async def test_fork(self, rig: Rig, place: Path) -> None:
        if not rig.driver.features.fork:
            with pytest.raises(Unsupported, match="fork"):
                self.session(rig, place, resume="some-id" if rig.driver.features.resume else "", fork=True)
            return
        rig.play([Say("I will remember.")], [Say("You said albatross.")])
        async with self.session(rig, place) as session:
            await collect(session.turn("remember the word albatross"))
            native = session.native_id
        before = rig.heard().count("albatross")
        async with self.session(rig, place, resume=native, fork=True) as session:
            seen = await collect(session.turn("which word was it"))
            assert done(seen).status == "success"
            assert session.native_id != native
        assert rig.heard().count("albatross") > before, "it goes on from what was said"

    async def test_steer(self, rig: Rig, place: Path) -> None:
        if not rig.driver.features.steer:
            async with self.session(rig, place) as session:
                with pytest.raises(Unsupported, match="steer"):
                    await session.steer("the other way")
            return
        self.able(rig, "tools")
        rig.play([Run("touch started; while [ ! -e steered ]; do sleep 0.05; done")], [Say("Heard.")])
        async with self.session(rig, place) as session:

            async def steer() -> None:
                await eventually((place / "started").exists, "the command never started")
                await session.steer("mind the pelican")
                (place / "steered").touch()

            steering = asyncio.create_task(steer())
            seen = await collect(session.turn("run it"))
            await steering
        assert done(seen).status == "success"
        assert "mind the pelican" in rig.heard()

    async def test_system_of_one_turn(self, rig: Rig, place: Path) -> None:
        """It reaches the model with the turn: apart from the prompt where the agent can, else in front of it."""
        rig.play([Say("Aye.")], [Say("Yes.")])
        async with self.session(rig, place) as session:
            seen = await collect(session.turn(Prompt("hello", system="Speak like a lighthouse keeper.")))
            assert done(seen).status == "success"
            heard = rig.heard()
            assert "lighthouse keeper" in heard
            framed = "<system_context>" in heard
            assert framed != rig.driver.features.turn_system
            long = f"Speak {'very ' * 5000}slowly, says the pelican."
            assert done(await collect(session.turn(Prompt("and now", system=long)))).status == "success"
            assert long in rig.heard()

    async def test_system(self, rig: Rig, place: Path) -> None:
        if rig.driver.features.system == "none":
            with pytest.raises(Unsupported, match="system"):
                self.session(rig, place, system="Speak like a ferryman.")
            return
        rig.play([Say("Ahoy.")])
        async with self.session(rig, place, system="Speak like a ferryman.") as session:
            await collect(session.turn("hello"))
        assert "Speak like a ferryman." in rig.heard()

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
    async def test_undeclared_is_refused(self, rig: Rig, place: Path, option: str, value: object) -> None:
        able = getattr(rig.driver.features, option)
        if able and option != "effort":
            assert getattr(self.session(rig, place, **{option: value}).spec, option) == value
        else:
            with pytest.raises(Unsupported, match=option):
                self.session(rig, place, **{option: value})
        if option == "effort":
            for effort in able:
                assert self.session(rig, place, effort=effort).spec.effort == effort

    async def test_max_turns(self, rig: Rig, place: Path) -> None:
        if not rig.driver.features.max_turns:
            pytest.skip(f"{rig.driver.name} has no max_turns")
        rig.play(*[[Run(f"echo {number}")] for number in range(5)])
        async with self.session(rig, place, max_turns=2) as session:
            seen = await collect(session.turn("go on and on"))
        assert done(seen).status == "max_turns"

    async def test_mcp_server(self, rig: Rig, place: Path) -> None:
        """The server is started by the agent, with its environment."""
        if not rig.driver.features.mcp_servers:
            pytest.skip(f"{rig.driver.name} takes no MCP servers")
        self.able(rig, "mcp_server")
        proof = place / "mcp-was-started"
        started = ("/bin/sh", "-c", 'touch "$PROOF"; exec "$@"', "sh")
        # One that answers: some agents wait for it before they open a session.
        server = McpServer(command=(*started, *mcp_server.command_line("nothing", "true")), env={"PROOF": str(proof)})
        rig.play([Say("Done.")])
        async with self.session(rig, place, mcp_servers={"proof": server}) as session:
            await collect(session.turn("hello"))
            await eventually(proof.exists, "the agent never started the server", timeout=20)

    async def test_attachment(self, rig: Rig, place: Path) -> None:
        image = place / "dot.png"
        image.write_bytes(PNG)
        prompt = Prompt("what is this", (Attachment(path=str(image), media_type="image/png", name="dot.png"),))
        async with self.session(rig, place) as session:
            if not {"image/png", "image/*", "*/*"} & set(rig.driver.features.attachments):
                with pytest.raises(Unsupported, match="attachments"):
                    await collect(session.turn(prompt))
                return
            rig.play([Say("A dot.")])
            seen = await collect(session.turn(prompt))
        assert done(seen).status == "success"
        assert PNG_BASE64[:60] in rig.heard(), "the picture reached the model"

    async def test_bad_input(self, rig: Rig, place: Path) -> None:
        with pytest.raises(UsageError, match="no directory"):
            self.session(rig, place / "missing")
        (place / "file").touch()
        with pytest.raises(UsageError, match="not a directory"):
            self.session(rig, place / "file")
        async with self.session(rig, place) as session:
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
