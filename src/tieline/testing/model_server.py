"""The scripted model: answers real agents from a script, on loopback, in their vendors' wire formats.

`async with ScriptedModel() as model`: point the agent at `model.url`, then `model.play(reply, reply, …)`. Each model
call of the agent's main loop takes the next reply; when none is left it says "Done.". Side calls (titles, token
counts, classifiers) are recognised by their voice and answered without touching the script.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol

from ..script import AnyStep, Call, Cut, Fail, Reply, Say, Stall, Think
from .http_server import HttpRequest, LoopbackServer

Dialect = Callable[[AnyStep], tuple[str, Mapping[str, Any]]]
"""How an agent's tools are called for a neutral step: (tool name, input)."""


class ModelApi(Protocol):
    """One vendor's streaming format. It writes one response; the model tells it what to say.

    The model calls `start`, then any of `think`, `say`, `call`, then `finish`. `say` and `think` come in pieces;
    `first` and `last` mark an item's ends.
    """

    @staticmethod
    def hears(request: HttpRequest) -> bool:
        """Whether this request is in this format."""
        ...

    @staticmethod
    async def aside(request: HttpRequest) -> bool:
        """Answer a call that is not part of the main loop (a title, a token count). False: it is."""
        ...

    def __init__(self, request: HttpRequest) -> None: ...

    @property
    def reported_tokens(self) -> tuple[int, int]:
        """The tokens in and out that the agent was given so far."""
        ...

    async def start(self) -> None: ...

    async def say(self, piece: str, *, first: bool, last: bool) -> None: ...

    async def think(self, text: str) -> None: ...

    async def call(self, name: str, arguments: Mapping[str, Any]) -> None: ...

    async def finish(self) -> None: ...

    async def refuse(self, status: int, message: str) -> None:
        """An error of the API, instead of everything else."""
        ...


class ScriptedModel:
    def __init__(self, *voices: type[ModelApi], dialect: Dialect | None = None) -> None:
        self._voices = voices
        self._dialect = dialect
        self._replies: deque[Reply] = deque()
        self._server = LoopbackServer(self._answer)
        self._named: dict[str, ScriptedModel] = {}
        self.requests: list[Any] = []
        """The body of every main-loop call so far."""
        self.called_as: list[str] = []
        """The model's name in every such call, also those to models of other names at this address."""
        self._spoken: list[ModelApi] = []
        self.asides: list[str] = []
        """What it was asked besides, such as to count tokens."""
        self.unheard: list[str] = []
        """Requests that no voice understood."""
        self.called = asyncio.Event()
        """Set when a main-loop call came in; clear it to wait for the next."""
        self.stalled = asyncio.Event()
        """Set when a reply has come to a stall."""
        self.go_on = asyncio.Event()
        """Ends a stall before its time."""
        self.otherwise: Reply = (Say("Done."),)
        """What it says when no reply is left."""
        self.choose: Callable[[Any], Reply | None] | None = None
        """Picks a reply by the request's body instead of by turn, for several sessions on one model."""

    async def __aenter__(self) -> "ScriptedModel":
        await self._server.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.__aexit__()

    @property
    def url(self) -> str:
        return self._server.url

    @property
    def reported_tokens(self) -> tuple[int, int]:
        """The tokens in and out of all main-loop calls so far, as their agents were given them."""
        counts = [voice.reported_tokens for voice in self._spoken]
        return sum(each for each, _ in counts), sum(each for _, each in counts)

    def play(self, *replies: Reply) -> None:
        """Replies for the next model calls, in order, after those not yet taken."""
        self._replies.extend(replies)

    def drop_replies(self) -> None:
        """Forget those that are not yet taken."""
        self._replies.clear()

    def tool_call(self, step: AnyStep) -> tuple[str, Mapping[str, Any]]:
        """How the agent's tool for that step is called."""
        if self._dialect is None:
            raise ValueError(f"no dialect to say {step!r} in")
        return self._dialect(step)

    def named(self, name: str) -> "ScriptedModel":
        """A model with a script of its own at the same address: it answers the requests for the model of that name, so
        that a late request of one test does not take a reply of the next."""
        model = ScriptedModel(*self._voices, dialect=self._dialect)
        model.called_as = self.called_as
        self._named[name] = model
        return model

    def reset(self) -> None:
        self._replies.clear()
        self.requests.clear()
        self.called_as.clear()
        self._spoken.clear()
        self.asides.clear()
        self.called.clear()
        self.stalled.clear()
        self.go_on.clear()

    async def _answer(self, request: HttpRequest) -> None:
        kind = next((voice for voice in self._voices if voice.hears(request)), None)
        if kind is None:
            self.unheard.append(f"{request.method} {request.target}")
            await request.respond(404, b'{"error":{"message":"the scripted model does not know this"}}')
            return
        model = self._named.get(str(request.json().get("model")), self) if self._named else self
        if await kind.aside(request):
            model.asides.append(f"{request.method} {request.target}")
        else:
            in_path = request.path.rpartition("/models/")[2].partition(":")[0]
            self.called_as.append(str(request.json().get("model") or in_path))
            await model._take(kind, request)

    async def _take(self, kind: type[ModelApi], request: HttpRequest) -> None:
        body = request.json()
        self.requests.append(body)
        self.called.set()
        reply = self.choose(body) if self.choose else None
        if reply is None:
            reply = self._replies.popleft() if self._replies else self.otherwise
        voice = kind(request)
        self._spoken.append(voice)
        await self._speak(voice, request, reply)

    async def _speak(self, voice: ModelApi, request: HttpRequest, reply: Reply) -> None:
        for step in reply:
            if isinstance(step, Fail):
                await voice.refuse(step.status, step.message)
                return
        await voice.start()
        for step in reply:
            match step:
                case Say(text, chunks, delay_s):
                    size = max(1, -(-len(text) // max(1, chunks)))
                    starts = range(0, max(1, len(text)), size)
                    for start in starts:
                        if delay_s:
                            await asyncio.sleep(delay_s)
                        await voice.say(text[start : start + size], first=start == 0, last=start == starts[-1])
                case Think(text):
                    await voice.think(text)
                case Cut():
                    request.abort()
                    return
                case Stall(seconds):
                    self.stalled.set()
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self.go_on.wait(), seconds)
                    self.go_on.clear()
                case Call(name, arguments):
                    await voice.call(name, arguments)
                case _:
                    name, arguments = self.tool_call(step)
                    await voice.call(name, arguments)
        await voice.finish()
