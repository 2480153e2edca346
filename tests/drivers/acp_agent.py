"""An ACP agent made with the protocol's official library: it checks every message of ours against the schema, and does
what the real agents of the tests do not. The first word of a prompt says what."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import acp
from acp import schema

OLD_STORY = ("remembered question", "remembered answer")


class Agent:
    def __init__(self) -> None:
        self.cancelled = asyncio.Event()
        self.seen: dict[str, Any] = {}
        self.later: asyncio.Task[None] | None = None

    def on_connect(self, conn: Any) -> None:
        self.client = conn

    async def initialize(
        self, protocol_version: int, client_capabilities: Any = None, client_info: Any = None, **_: Any
    ) -> schema.InitializeResponse:
        self.seen["client"] = client_info.name
        self.seen["fs"] = client_capabilities.fs.write_text_file
        rich = not os.environ.get("PEER_BARE")
        able = schema.AgentCapabilities(
            load_session=rich,
            prompt_capabilities=schema.PromptCapabilities(image=rich, audio=rich, embedded_context=rich),
            mcp_capabilities=schema.McpCapabilities(http=rich, sse=False),
            session_capabilities=schema.SessionCapabilities(fork=schema.SessionForkCapabilities() if rich else None),
        )
        version = int(os.environ.get("PEER_VERSION", "1"))
        info = schema.Implementation(name="peer", version="9.9")
        return schema.InitializeResponse(protocol_version=version, agent_capabilities=able, agent_info=info)

    async def new_session(self, cwd: str, mcp_servers: Any = None, **_: Any) -> schema.NewSessionResponse:
        if os.environ.get("PEER_SIGNED_OUT"):
            raise acp.RequestError.auth_required()
        self.seen["servers"] = [server.model_dump(by_alias=True, exclude_none=True) for server in mcp_servers or ()]
        choices = [schema.SessionConfigSelectOption(value=value, name=value) for value in ("small", "large")]
        model = schema.SessionConfigOptionSelect(
            id="which", name="Model", category="model", type="select", current_value="small", options=choices
        )
        modes = [schema.SessionMode(id=name, name=name) for name in ("free", "careful")]
        state = schema.SessionModeState(current_mode_id="free", available_modes=modes)
        return schema.NewSessionResponse(session_id="peer-1", config_options=[model], modes=state)

    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: Any = None, **_: Any
    ) -> schema.LoadSessionResponse:
        await self.client.session_update(session_id, acp.update_user_message_text(OLD_STORY[0]))
        await self.client.session_update(session_id, acp.update_agent_message_text(OLD_STORY[1]))
        return schema.LoadSessionResponse()

    async def fork_session(
        self, session_id: str, cwd: str, mcp_servers: Any = None, **_: Any
    ) -> schema.ForkSessionResponse:
        return schema.ForkSessionResponse(session_id=f"{session_id}-copy")

    async def set_config_option(self, config_id: str, session_id: str, value: Any, **_: Any) -> Any:
        self.seen[config_id] = value
        return schema.SetSessionConfigOptionResponse(config_options=[])

    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> schema.SetSessionModeResponse:
        self.seen["mode"] = mode_id
        return schema.SetSessionModeResponse()

    async def cancel(self, session_id: str, **_: Any) -> None:
        self.cancelled.set()

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> schema.PromptResponse:
        self.id = session_id
        word, _, rest = prompt[0].text.rpartition("\n")[2].partition(" ")
        usage = schema.Usage(
            total_tokens=9,
            input_tokens=5,
            output_tokens=4,
            thought_tokens=1,
            cached_read_tokens=2,
            cached_write_tokens=3,
        )
        if word == "stop":
            return schema.PromptResponse(stop_reason=rest)  # pyright: ignore[reportArgumentType]
        if word == "wait":
            self.cancelled.clear()
            await self.say("waiting")
            await self.cancelled.wait()
            return schema.PromptResponse(stop_reason="cancelled")
        if word == "later":
            self.later = asyncio.create_task(self.speak_late())
            await self.say("Wait for it.")
            return schema.PromptResponse(stop_reason="end_turn")
        if word == "content":
            await self.say(json.dumps([block.model_dump(by_alias=True, exclude_none=True) for block in prompt]))
        else:
            await getattr(self, f"do_{word}")(rest)
        return schema.PromptResponse(stop_reason="end_turn", usage=usage)

    async def say(self, text: str) -> None:
        await self.update(acp.update_agent_message_text(text))

    async def update(self, update: Any) -> None:
        await self.client.session_update(self.id, update)

    async def raw(self, update: dict[str, Any]) -> None:
        """Something that the library would not let pass."""
        await self.client._conn.send_notification("session/update", {"sessionId": self.id, "update": update})

    async def speak_late(self) -> None:
        """After the turn's end, as far as an agent can know."""
        await asyncio.sleep(0.2)
        await self.update(schema.SessionInfoUpdate(session_update="session_info_update", title="Told late"))
        await self.raw({"sessionUpdate": "from_the_future"})
        await self.raw({"sessionUpdate": "usage_update"})
        await self.say("too late")

    async def do_seen(self, _: str) -> None:
        await self.say(json.dumps(self.seen))

    async def do_story(self, _: str) -> None:
        await self.update(acp.update_agent_thought_text("Let me "))
        await self.update(acp.update_agent_thought_text("think."))
        steps = [acp.plan_entry("Look", status="completed"), acp.plan_entry("Go", status="in_progress")]
        await self.update(acp.update_plan([*steps, acp.plan_entry("Rest")]))
        await self.say("One. ")
        await self.say("Two.")
        cost = schema.Cost(amount=0.25, currency="USD")
        await self.update(schema.UsageUpdate(session_update="usage_update", used=10, size=100, cost=cost))
        await self.update(schema.CurrentModeUpdate(session_update="current_mode_update", current_mode_id="careful"))
        await self.update(schema.SessionInfoUpdate(session_update="session_info_update", title="A story"))

    async def do_tools(self, path: str) -> None:
        """An edit in two steps, a command that streams, and one that fails."""
        await self.update(acp.start_tool_call("t1", "edit", kind="edit", status="pending"))
        change = acp.tool_diff_content(path, "one\n2\nthree\n", "one\ntwo\nthree\n")
        await self.update(acp.update_tool_call("t1", status="in_progress", content=[change]))
        await self.update(acp.update_tool_call("t1", status="completed"))
        again = acp.tool_diff_content(path, "one\n2\n3\n", "one\n2\nthree\n")
        await self.update(acp.start_tool_call("t2", "edit", kind="edit", status="in_progress", content=[again]))
        await self.update(acp.update_tool_call("t2", status="completed"))
        command = {"command": ["make", "all"]}
        await self.update(
            acp.start_tool_call("t3", "Run make", kind="execute", status="in_progress", raw_input=command)
        )
        for text in ("a\n", "a\nb\n"):
            content = [acp.tool_content(acp.text_block(text))]
            await self.update(acp.update_tool_call("t3", status="in_progress", content=content))
        await self.update(acp.update_tool_call("t3", status="failed", raw_output={"error": "boom"}))
        await self.update(acp.start_tool_call("t4", "fetch", kind="fetch", raw_input={"url": "http://x.test/"}))

    async def do_permit(self, rest: str) -> None:
        """Ask with these kinds of options; say which was chosen."""
        call, title, *kinds = rest.split()
        options = [schema.PermissionOption(option_id=f"o-{kind}", name=kind, kind=kind) for kind in kinds]  # pyright: ignore[reportArgumentType]
        tool = schema.ToolCallUpdate(tool_call_id=call, kind="execute", status="pending", title=title)
        answer = await self.client.request_permission(self.id, tool, options)
        await self.say(getattr(answer.outcome, "option_id", answer.outcome.outcome))

    async def do_crowd(self, pipe: str) -> None:
        """Ask; when somebody writes into the pipe, say much and ask once more, while the first is still open."""
        options = [schema.PermissionOption(option_id="yes", name="Yes", kind="allow_once")]

        def ask(call: str) -> Any:
            tool = schema.ToolCallUpdate(tool_call_id=call, kind="execute", status="pending", title=f"make {call}")
            return asyncio.create_task(self.client.request_permission(self.id, tool, options))

        asks = [ask("first")]
        await asyncio.to_thread(Path(pipe).read_text)
        await self.say("More.\n\n" * 40)
        asks.append(ask("second"))
        await asyncio.gather(*asks)
        await self.say("Both.")

    async def do_ignore(self, _: str) -> None:
        """Ask, and run it whatever the answer is."""
        tool = schema.ToolCallUpdate(tool_call_id="t9", kind="execute", status="pending", title="rm -r build")
        option = schema.PermissionOption(option_id="no", name="No", kind="reject_once")
        await self.client.request_permission(self.id, tool, [option])
        await self.update(acp.update_tool_call("t9", status="completed"))

    async def do_propose(self, _: str) -> None:
        plan: list[Any] = [acp.tool_content(acp.text_block("1. Look\n2. Change"))]
        tool = schema.ToolCallUpdate(tool_call_id="p1", kind="switch_mode", title="Ready to code?", content=plan)
        option = schema.PermissionOption(option_id="yes", name="Yes", kind="allow_once")
        await self.client.request_permission(self.id, tool, [option])
        await self.say("Going.")

    async def do_question(self, _: str) -> None:
        fields: dict[str, Any] = {
            "colour": {"type": "string", "title": "Colour", "description": "Which colour?", "enum": ["red", "blue"]},
            "sure": {"type": "boolean", "title": "Sure?"},
            "count": {"type": "integer", "title": "How many?"},
        }
        form = schema.ElicitationSchema.model_validate({"type": "object", "properties": fields})
        mode = schema.ElicitationFormSessionMode(session_id=self.id, requested_schema=form)
        answer = await self.client.create_elicitation("Tell me", mode)
        await self.say(json.dumps({"action": answer.action, "content": getattr(answer, "content", None)}, default=str))

    async def do_beyond(self, path: str) -> None:
        """What we never declared."""
        outcomes: list[str] = []
        for call in (
            self.client.read_text_file(session_id=self.id, path=path),
            self.client.write_text_file(session_id=self.id, path=path, content="x"),
            self.client.create_terminal(session_id=self.id, command="true"),
            self.client.ext_method("vendor/thing", {}),
        ):
            try:
                await call
                outcomes.append("done")
            except acp.RequestError as error:
                outcomes.append(str(error.code))
        await self.say(" ".join(outcomes))

    async def do_odd(self, _: str) -> None:
        await self.raw({"sessionUpdate": "from_the_future", "more": [1, 2]})
        await self.raw({"sessionUpdate": "plan"})
        await self.update(acp.update_agent_message(acp.image_block("AAAA", "image/png")))
        await self.client.ext_notification("vendor/note", {"x": 1})
        print("not a message", flush=True)
        await self.say("odd")

    async def do_error(self, _: str) -> None:
        raise acp.RequestError(-32603, "Internal error", {"details": "the disk is full"})


if __name__ == "__main__":
    agent: Any = Agent()
    asyncio.run(acp.run_agent(agent, use_unstable_protocol=True))
