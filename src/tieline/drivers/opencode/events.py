"""OpenCode's events as ours. Synchronous, and the same again for what it has seen before: after a lost event stream
the messages are simply read again and fed in once more.

A session tree is one conversation: the root session, and a child session per subagent, whose events carry the `task`
call they work for as their parent.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...events import (
    Command,
    Diff,
    Edit,
    Error,
    Event,
    Other,
    Plan,
    PlanStep,
    Status,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    Tokens,
    ToolOutput,
    ToolResult,
    ToolUse,
    Usage,
    changed_paths,
)
from ...wire.json_object import JsonObject
from .protocol import IGNORED, IGNORED_PARTS, REFUSALS, SOURCE, STEPS, error_message
from .tools import tool_action

EventHandler = Callable[[dict[str, Any]], Sequence[Event]]


class OpenCodeNormaliser:
    """Feed it the native events of one conversation; it gives ours. It knows nothing of turns but `fresh`."""

    def __init__(
        self,
        root: str,
        *,
        hidden: Callable[[str], bool] = lambda tool: False,
        mcp: Iterable[str] = (),
    ) -> None:
        """`hidden` tells which tools the session's rules keep from the model, `mcp` names the MCP servers."""
        self.root = root
        self.users: set[str] = set()  # messages that are prompts: their parts are echoes
        self._hidden = hidden
        self.servers = tuple(sorted(mcp, key=len, reverse=True))
        self._events: dict[str, EventHandler] = {
            "message.part.delta": self._delta,
            "message.part.updated": self._part,
            "message.updated": self._message,
            "session.status": self._status,
            "session.compacted": lambda properties: (Status("compacted"),),
            "todo.updated": self._todos,
        }
        self._parts: dict[str, EventHandler] = {
            "text": self._text,
            "reasoning": self._text,
            "tool": self._tool,
            "step-finish": self._step,
            "patch": self._patch,
            "compaction": lambda part: self._once(part, Status("compacting")),
            "retry": self._retry,
        }
        self.start_turn()

    def start_turn(self) -> None:
        """A new turn begins: its tokens, steps and changes are counted from nothing."""
        self.tools: dict[tuple[str, str], ToolUse] = {}  # (message, call) → as it was told
        self._texts: dict[str, _OpenText] = {}
        self._ended: set[str] = set()  # parts that are complete
        self._outputs: dict[str, str] = {}
        self._parents: dict[str, str] = {}  # child session → the task call
        self.children: set[str] = set()  # child sessions
        self.new_child = ""
        self.steps = 0
        self.step_reason = ""
        self.patched = False
        self.tokens: Tokens | None = None
        self._totals = [0, 0, 0, 0, 0, 0.0]
        self._diffs: dict[str, str] = {}
        self._plan: Plan | None = None

    def feed(self, message: dict[str, Any]) -> Sequence[Event]:
        kind = message.get("type")
        handler = self._events.get(kind)  # type: ignore[arg-type]
        if handler is None:
            return () if kind in IGNORED else (Other(message, SOURCE),)
        try:
            return handler(message["properties"])
        except (KeyError, TypeError, AttributeError, IndexError):  # not as we know it: kept, not fatal
            return (Other(message, SOURCE),)

    def mark_gap(self) -> None:
        """The event stream broke: pieces of the texts that are open may be missing. Their ends bring all of it."""
        for text in self._texts.values():
            text.complete = False

    def composed_diff(self) -> Diff | None:
        """What the edit tools told of their changes, for directories that OpenCode takes no snapshots of."""
        diff = "".join(patch if patch.endswith("\n") else patch + "\n" for patch in self._diffs.values())
        return Diff(diff, tuple(changed_paths(diff))) if diff else None

    # --- messages and their parts ----------------------------------------------------------------------

    def _message(self, properties: JsonObject) -> Sequence[Event]:
        if properties["info"]["role"] == "user":
            self.users.add(properties["info"]["id"])
        return ()

    def _part(self, properties: JsonObject) -> Sequence[Event]:
        part = properties["part"]
        if part["messageID"] in self.users or part["id"] in self._ended:
            return ()
        kind = part["type"]
        handler = self._parts.get(kind)
        if handler is None:
            return () if kind in IGNORED_PARTS else (Other(part, SOURCE),)
        return handler(part)

    def _delta(self, properties: JsonObject) -> Sequence[Event]:
        text = self._texts.get(properties["partID"])
        if text is None or not text.complete or properties["field"] != "text":
            return ()
        delta = properties["delta"]
        text.deltas.append(delta)
        return (text.delta(delta, properties["partID"], self._parents.get(properties["sessionID"], "")),)

    def _text(self, part: dict[str, Any]) -> Sequence[Event]:
        name = part["id"]
        text = self._texts.get(name)
        if text is None:
            text = self._texts[name] = _OpenText(part["type"], not part["text"])
        if part.get("ignored"):
            return ()
        time = part.get("time")
        if time is not None and "end" not in time:
            return ()
        self._ended.add(name)
        del self._texts[name]
        return text.end(part["text"], name, self._parents.get(part["sessionID"], ""))

    def feed_part(self, part: dict[str, Any]) -> Sequence[Event]:
        """Take a part from the message list. A text that is still open may have had deltas that did not reach us."""
        events = self._part({"part": part})
        if (text := self._texts.get(part.get("id", ""))) is not None:
            text.complete = False
        return events

    def _once(self, part: JsonObject, *events: Event) -> Sequence[Event]:
        self._ended.add(part["id"])
        return events

    def _step(self, part: dict[str, Any]) -> Sequence[Event]:
        """Take the end of a model call, with its cost."""
        tokens, cache = part["tokens"], part["tokens"]["cache"]
        new = (tokens["input"], tokens["output"], cache["read"], cache["write"], tokens["reasoning"], part["cost"])
        self._totals = [old + more for old, more in zip(self._totals, new, strict=True)]
        input_tokens, output_tokens, read, written, thought, cost = self._totals
        self.tokens = Tokens(
            input=int(input_tokens),
            output=int(output_tokens),
            cache_read=int(read),
            cache_write=int(written),
            reasoning=int(thought),
            cost_usd=round(cost, 9),
        )
        if part["sessionID"] == self.root:
            self.steps += 1
            self.step_reason = part.get("reason", "")
        return self._once(part, Usage(self.tokens))

    def _patch(self, part: dict[str, Any]) -> Sequence[Event]:
        self.patched = self.patched or bool(part.get("files"))
        return self._once(part)

    def _retry(self, part: dict[str, Any]) -> Sequence[Event]:
        return self._once(part, Error(error_message(part["error"]), "retry", recoverable=True))

    # --- tools -----------------------------------------------------------------------------------------

    def _tool(self, part: dict[str, Any]) -> Sequence[Event]:
        state = part["state"]
        status = state["status"]
        if status == "pending":  # its input is still being written
            return ()
        name = part["id"]
        parent = self._parents.get(part["sessionID"], "")
        key = (part["messageID"], part["callID"])
        use = self.tools.get(key)
        events: list[Event] = []
        if use is None:
            tool: str = part["tool"]
            arguments: JsonObject = state["input"]
            if tool == "invalid" and "tool" in arguments:  # the model called what it was not offered
                tool = arguments["tool"]
                arguments = {}
            use = self.tools[key] = ToolUse(name, tool, tool_action(tool, arguments, self.servers), arguments, parent)
            events.append(use)
        metadata: JsonObject = state.get("metadata") or {}
        if use.name == "task" and "sessionId" in metadata:
            child = metadata["sessionId"]
            if child not in self.children:
                self.new_child = child
                self.children.add(child)
            self._parents[child] = name
        if status == "running":
            if output := metadata.get("output"):
                events += self._output(name, output)
            return events
        self._ended.add(name)
        self._outputs.pop(name, None)
        events.append(self._result(part["tool"], use, state, metadata))
        return events

    def _output(self, name: str, output: str) -> Sequence[Event]:
        """OpenCode tells the last part of what was printed so far, again and again; we tell what is new."""
        before = self._outputs.get(name, "")
        self._outputs[name] = output
        if output.startswith(before):
            new = output[len(before) :]
        else:
            mark = before[-200:]
            at = output.rfind(mark)
            new = output if at < 0 else output[at + len(mark) :]
        return (ToolOutput(name, new),) if new else ()

    def _result(self, native: str, use: ToolUse, state: JsonObject, metadata: JsonObject) -> ToolResult:
        if state["status"] == "error":
            self._diffs.pop(use.id, None)
            error = state.get("error") or ""
            return ToolResult(use.id, "denied" if error.startswith(REFUSALS) else "error", error, use.parent)
        output = state.get("output") or ""
        if native == "invalid":
            return ToolResult(use.id, "denied" if self._hidden(use.name) else "error", output, use.parent)
        if isinstance(use.action, Edit):
            self._add_diff(use, metadata)
        if isinstance(use.action, Command) and metadata.get("exit", 0) != 0:
            code = metadata["exit"]
            ending = "" if code is None else f"\n(exit status {code})"
            return ToolResult(use.id, "error", output + ending, use.parent)
        return ToolResult(use.id, "ok", output, use.parent)

    def _add_diff(self, use: ToolUse, metadata: JsonObject) -> None:
        if patch := metadata.get("diff"):
            self._diffs[use.id] = patch
        elif "content" in use.input and metadata.get("exists") is False:
            lines = str(use.input["content"]).splitlines()
            body = "".join(f"+{line}\n" for line in lines)
            path = use.input.get("filePath", "")
            self._diffs[use.id] = f"--- /dev/null\n+++ {path}\n@@ -0,0 +1,{len(lines)} @@\n{body}"

    def add_proposed_diff(self, tool: str, diff: str) -> None:
        """A permission request told what an edit would change, before the edit itself does."""
        self._diffs.setdefault(tool, diff)

    # --- the session -----------------------------------------------------------------------------------

    def _status(self, properties: JsonObject) -> Sequence[Event]:
        status = properties["status"]
        if status["type"] != "retry":
            return ()
        message = str(status.get("message", ""))
        attempt = f"attempt {status.get('attempt', 1)}"
        return (Error(message, "retry", recoverable=True), Status("retrying", attempt))

    def _todos(self, properties: JsonObject) -> Sequence[Event]:
        if properties["sessionID"] != self.root:
            return ()
        steps = [PlanStep(todo["content"], STEPS.get(todo["status"], "pending")) for todo in properties["todos"]]
        plan = Plan(tuple(steps))
        if plan == self._plan:
            return ()
        self._plan = plan
        return (plan,)


class _OpenText:
    """A text or reasoning part that is being written."""

    __slots__ = ("complete", "delta", "deltas", "item")

    def __init__(self, kind: str, whole: bool) -> None:
        self.item = Text if kind == "text" else Thinking
        self.delta = TextDelta if kind == "text" else ThinkingDelta
        self.deltas: list[str] = []
        self.complete = whole  # heard from its beginning

    def end(self, text: str, name: str, parent: str) -> Sequence[Event]:
        streamed = "".join(self.deltas)
        if streamed == text or (streamed and streamed.strip() == text.strip()):  # it may have been trimmed at its end
            return (self.item(streamed, name, parent),) if streamed else ()
        if text.startswith(streamed):
            return (self.delta(text[len(streamed) :], name, parent), self.item(text, name, parent))
        return (self.item(text, name, parent),)
