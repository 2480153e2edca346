"""A conversation with Pi: its turns, and the answers to what it asks."""

import asyncio
import base64
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from ...background_tasks import cancel_and_wait
from ...errors import AgentDied, AgentStartFailed, UsageError
from ...events import Answer, Ask, Choice, Error, Init, Other, Question, Status, Warning, needs
from ...policy import Receipt
from ...processes.async_process import Process
from ...wire.json_object import JsonDict
from ..base import AskFn, Attachment, Prompt, Spec
from ..current_file import note_links
from ..model_list import ModelList, mappings, model_list
from ..turn_stream import Turn
from .events import PiNormaliser
from .launch import MARK
from .rpc import PiGone, PiRefused, PiRpc
from .tools import action_of, preview_edit

START_S = 60.0
"""The longest wait for Pi to come up."""
EXIT_S = 1.0
"""How long its exit status may take after its streams have closed."""
ACCEPT_S = 3.0
"""How long an interrupt waits for Pi to have taken the prompt: before that there is nothing to abort."""
MAX_GARBAGE = 100
DIALOGS = frozenset({"select", "confirm", "input", "editor"})
"""Requests of extensions that wait for an answer."""
YES, NO = "Yes", "No"


class PiConversation:
    def __init__(self, agent: str, spec: Spec, ask: AskFn, process: Process, receipt: Receipt) -> None:
        self.agent = agent
        self.spec = spec
        self.receipt = receipt
        self.native_id = ""
        self.process = process
        self._model = ""
        self._ask = ask
        self._rpc = PiRpc(process, self, self._drain)
        self._turn: Turn | None = None
        self._normaliser = PiNormaliser(lambda event: None, spec.cwd)
        self._running: asyncio.Task[None] | None = None
        self._cancelling: asyncio.Task[None] | None = None
        self._accepted = asyncio.Event()  # the prompt of this turn was taken, or refused
        self._began = False  # Pi works on it
        self._answering: set[asyncio.Task[None]] = set()
        self._asks = 0
        self._turns = 0
        self._garbage: list[str] = []

    async def open(self, version: str) -> None:
        self._version = version
        await self._rpc.__aenter__()
        try:
            state = await self._rpc.request("get_state", timeout=START_S)
        except (PiGone, PiRefused, TimeoutError) as error:
            raise await self._start_failed(error) from None
        self.native_id = str(state.get("sessionId") or "")
        model: Mapping[str, Any] = state.get("model") or {}
        self._model = "/".join(str(model[name]) for name in ("provider", "id") if model.get(name))
        if self.spec.resume and not self.spec.fork and self.native_id != self.spec.resume:
            raise AgentStartFailed(self.agent, f"it opened the conversation {self.native_id}, not {self.spec.resume}")

    async def offered_models(self) -> ModelList:
        try:
            response = await self._rpc.request("get_available_models")
        except (PiGone, PiRefused, TimeoutError) as error:
            raise await self._start_failed(error) from None
        return model_list(
            (f"{model.get('provider')}/{model.get('id')}", ["off"] if model.get("reasoning") is False else None)
            for model in mappings(response.get("models"))
            if model.get("provider") and model.get("id")
        )

    async def close(self) -> None:
        for task in (self._running, self._cancelling, *self._answering):
            if task is not None:
                await cancel_and_wait(task)
        await self._rpc.__aexit__()
        if self._turn is not None:
            self._turn.done("interrupted", native_id=self.native_id)

    # --- turns -----------------------------------------------------------------------------------------

    @property
    def alive(self) -> bool:
        return self.process.returncode is None

    def turn(self, prompt: Prompt) -> Turn:
        turn = self._turn = Turn(prompt, self._ask)
        self._normaliser = PiNormaliser(turn.emit, self.spec.cwd)
        self._accepted = asyncio.Event()
        self._began = False
        self._running = asyncio.create_task(self._run(turn, prompt.with_inline_system()))
        return turn

    async def interrupt(self) -> None:
        turn = self._turn
        if turn is None or turn.ended:
            return
        turn.interrupt(self.process.kill)
        # A task of its own: who interrupts may be the very one whose decision is withdrawn by it.
        self._cancelling = asyncio.create_task(self._abort())
        await asyncio.shield(self._cancelling)

    async def _abort(self) -> None:
        for task in self._answering:
            task.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(ACCEPT_S):
                await self._accepted.wait()
        with suppress(PiGone):  # then the turn ends by itself
            await self._rpc.send({"type": "clear_queue"})  # what waits would be begun after the abort
            await self._rpc.send({"type": "abort"})

    async def steer(self, text: str) -> None:
        if self._turn is None or self._turn.ended:
            raise UsageError("no turn is running", field="steer", hint="Send it as the next prompt.")
        try:
            await self._rpc.request("steer", {"message": text})
        except (PiRefused, PiGone, TimeoutError) as error:
            why = str(error) or "it does not answer"
            raise UsageError(f"{self.agent}: {why}", field="steer", hint="Send it as the next prompt.") from None

    async def _run(self, turn: Turn, prompt: Prompt) -> None:
        self._turns += 1
        if self._turns == 1:
            agent, cwd, model, version = self.agent, self.spec.cwd, self._model, self._version
            turn.emit(Init(agent, self.native_id, cwd, model, version, receipt=self.receipt))
        for line in self._garbage:
            turn.emit(Other(line, "stdout"))
        self._garbage.clear()
        if turn.interrupted:  # before the agent heard of it
            turn.done("interrupted", native_id=self.native_id)
            return
        message: JsonDict = {"message": prompt.text}
        if prompt.attachments:
            message["images"] = [_image(attachment) for attachment in prompt.attachments]
        try:
            await self._rpc.request("prompt", message)
            if not self._began and not (await self._rpc.request("get_state")).get("isStreaming") and not self._began:
                turn.done("success", native_id=self.native_id)  # a command of an extension's: no model was asked
        except PiRefused as error:
            turn.fail(str(error), native_id=self.native_id)
        except PiGone:
            await self._died(turn)
        except TimeoutError:
            turn.fail("Pi did not accept the prompt in time", native_id=self.native_id)
        finally:
            self._accepted.set()

    def _complete(self, turn: Turn) -> None:
        """End the turn: Pi has settled, which means that it does nothing more by itself."""
        normaliser = self._normaliser
        if normaliser.failure and not turn.interrupted:
            turn.emit(Error(normaliser.failure, "agent"))
        status = "error" if normaliser.failure else "success"
        turn.done(
            status, error=normaliser.failure, tokens=normaliser.tokens, usage=normaliser.usage, native_id=self.native_id
        )

    async def _died(self, turn: Turn) -> None:
        await self.process.wait(EXIT_S)
        died = AgentDied(self.agent, self.process.returncode, self.process.stderr)
        again = f"Open the session again with resume={self.native_id!r}."
        turn.emit(Error(f"{died}\n  {again}", "died"))
        normaliser = self._normaliser
        usage = "partial" if normaliser.tokens else "unknown"
        turn.done("error", tokens=normaliser.tokens, usage=usage, native_id=self.native_id)

    async def _drain(self) -> None:
        if self._turn is not None:
            await self._turn.drain()

    async def _start_failed(self, error: Exception) -> AgentStartFailed:
        await self.process.wait(EXIT_S)
        status = self.process.returncode
        how = f"it exited with status {status}" if status is not None else str(error) or "it does not answer"
        output = self.process.stderr.strip() or "\n".join(self._garbage)
        return AgentStartFailed(self.agent, how, hint=f"Its last output: {output[-2000:]}" if output else "")

    # --- what Pi says (rpc.RecordHandler) --------------------------------------------------------------------

    def happened(self, record: JsonDict) -> None:
        turn = self._turn
        if record.get("type") == "extension_ui_request":
            self._requested(turn, record)
        elif turn is None or turn.ended:
            return  # of a turn that is over
        elif record.get("type") == "agent_settled":
            self._complete(turn)
        else:
            self._began = self._began or record.get("type") == "agent_start"
            try:
                self._normaliser.feed(record)
            except (KeyError, TypeError, ValueError, AttributeError):  # of a shape we do not know
                turn.emit(Other(record, str(record.get("type"))))

    def garbage(self, line: bytes) -> None:
        text = line.decode(errors="replace")
        if self._turn is not None and not self._turn.ended:
            self._turn.emit(Other(text, "stdout"))
        elif len(self._garbage) < MAX_GARBAGE:
            self._garbage.append(text)

    def gone(self) -> None:
        turn = self._turn
        if turn is not None and not turn.ended and self._accepted.is_set():
            self._spawn(self._died(turn))

    # --- what its extensions ask -----------------------------------------------------------------------

    def _requested(self, turn: Turn | None, request: JsonDict) -> None:
        if request.get("method") in DIALOGS:
            self._spawn(self._answer(turn, request))
        elif turn is not None and request.get("method") == "notify":
            message = str(request.get("message") or "")
            turn.emit(Status("notice", message) if request.get("notifyType") != "error" else Warning(message))

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _answer(self, turn: Turn | None, request: JsonDict) -> None:
        """Every dialog gets its response: without one Pi would wait for ever."""
        reply: JsonDict = {"cancelled": True}
        try:
            if turn is not None and not turn.ended:
                title = str(request.get("title") or "")
                ours = title.startswith(MARK) and request["method"] == "input"
                reply = await (self._permission(turn, title) if ours else self._question(turn, request))
        finally:
            with suppress(PiGone):
                await asyncio.shield(self._rpc.send({"type": "extension_ui_response", "id": request["id"], **reply}))

    async def _permission(self, turn: Turn, title: str) -> JsonDict:
        call = msgspec.json.decode(title.removeprefix(MARK))
        name, given = str(call["name"]), call["input"]
        action, note, withheld = action_of(name, given), "", ""
        if drawn := await preview_edit(name, given, self.spec.cwd):
            preview, change = drawn
            action, note, withheld = preview.edit, preview.note, preview.withheld
            self._normaliser.propose(call["id"], change)
        ask = Ask(
            self._next_id(),
            "permission",
            name,
            note,
            tool=call["id"],
            action=action,
            input=given,
            capability=needs(action),
            withheld=withheld,
        )
        answer = await turn.ask(await note_links(ask, self.spec.cwd))
        if answer.decision == "allow":
            return {"value": "allow"}
        return {"value": f"The user denied this: {answer.reason}" if answer.reason else "The user denied this."}

    async def _question(self, turn: Turn, request: JsonDict) -> JsonDict:
        method, text = request["method"], str(request.get("title") or "")
        if message := str(request.get("message") or ""):
            text = f"{text}\n{message}" if text else message
        options = [YES, NO] if method == "confirm" else [str(option) for option in request.get("options") or ()]
        choices = tuple(Choice(option, option) for option in options)
        question = Question(id="answer", text=text, choices=choices, free=not choices)
        shown = {name: request[name] for name in ("placeholder", "prefill") if request.get(name)}
        answer = await turn.ask(Ask(self._next_id(), "question", text, questions=(question,), input=shown))
        chosen = _chosen(answer)
        if not chosen:
            return {"cancelled": True}
        return {"confirmed": chosen == YES} if method == "confirm" else {"value": chosen}

    def _next_id(self) -> str:
        self._asks += 1
        return f"{self.native_id or 'pi'}-{self._asks}"


def _chosen(answer: Answer) -> str:
    chosen = answer.answers.get("answer", ()) if answer.decision == "allow" else ()
    return chosen[0] if chosen else ""


def _image(attachment: Attachment) -> dict[str, Any]:
    data = attachment.data or Path(attachment.path).read_bytes()
    return {"type": "image", "data": base64.b64encode(data).decode(), "mimeType": attachment.media_type}
