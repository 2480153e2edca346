"""How ACP agents differ where the protocol leaves a choice or an agent does not follow it: the vocabulary in which a
preset (`acp_presets`) describes one agent.
"""

from typing import Literal

from msgspec import Struct

Denial = Literal["told", "ends_turn", "cancelled", "unknown"]
"""What the agent does after a denied call: tells the model, which goes on · ends the turn as if it were answered ·
ends the turn as cancelled. It is told to people: whichever it is, only words after a denial are an answer."""

Spending = Literal["turn", "session", "process", "last_call", "unknown"]
"""Whose tokens it reports at the end of a turn: the turn's · the session's so far · the session's since the agent
started · the last model call's."""

McpPassing = Literal["session", "argument", "refused"]
"""How it gets MCP servers: with the session, as in the protocol · by an argument of its own · not at all: it would drop
them silently, so they are refused."""

SteeringMode = Literal["none", "request", "drained"]
"""How it gets a message in the middle of a turn: not at all · by the request `_session/steering` · by fetching it
itself, with `craft/drainMidTurnQueue`."""

ToolProgress = Literal["output", "arguments", "description"]
"""What the content of a running call is."""


class Replacements(Struct, frozen=True, kw_only=True):
    command: str  # what the edit's `command` is then
    entries: str  # the name of the list,
    old: str  # and in each entry those of the text before
    new: str  # and after


class Traits(Struct, frozen=True, kw_only=True):
    """The first ones have no default: every preset states them."""

    denial: Denial
    usage: Spending
    mcp: McpPassing
    steering: SteeringMode
    progress: ToolProgress

    consents: tuple[str, ...] = ()  # ids of permission requests that only a person may grant, whatever the policy
    denial_texts: tuple[str, ...] = ()  # patterns of its own text about a denial, which is not the model's answer
    notice_texts: tuple[str, ...] = ()  # patterns of notices of its own that it sends as a part of the answer
    notice_thoughts: tuple[str, ...] = ()  # patterns of what it sends as a thought, and the model has not thought
    error_texts: tuple[str, ...] = ()  # patterns of errors sent as an answer: as all that a turn says, or in one piece
    # It tells no error: an end without words after the last call is, or may be, that of a turn that failed.
    silence_fails: bool = False
    load_begins: bool = False  # it begins a conversation by an id that it does not know, when it is to load it
    asks_together: bool = False  # an ask names no call and is about all calls that have begun
    failure_path: tuple[str, ...] = ()  # where session updates report a status,
    failure: str = ""  # and the status of a failed turn, whose last text is the error
    title_is_action: bool = False  # an ask's title is the whole action
    usage_path: tuple[str, ...] = ("usage",)  # where the prompt's result has the tokens
    subagents_uncounted: bool = False  # the tokens of subagents are not included
    calls_uncounted: bool = False  # some model calls are not included either, and it does not say which
    chunk_usage_path: tuple[str, ...] = ()  # where a chunk of the answer has the tokens of one model call
    output_path: tuple[str, ...] = ()  # where an update has the running call's output, beside its content
    output_whole: bool = False  # that output is everything so far, not only what is new
    name_path: tuple[str, ...] = ()  # where a call has its tool's name
    replacements: Replacements | None = None  # where an edit's input has what it replaces, if nothing else says it
    mcp_marks: tuple[str, ...] = ()  # keys under `_meta` that mark a call of an MCP tool, or its ask
    mcp_by_shell: bool = False  # it runs a server's command and arguments by a shell, joined without quotes
    command_prefixes: tuple[str, ...] = ()  # an ask's text after one of these is the command, or its beginning
    cut_mark: str = ""  # how such a command ends when it was cut
    fork_keeps_servers: bool = False  # a forked conversation keeps the original's MCP servers, whatever is passed
    questions_path: tuple[str, ...] = ()  # where a permission request has questions instead
    title_is_question: bool = False  # a form's field has the question as its title, a heading as its description
    note_suffix: str = ""  # the suffix of the field for a free-text answer
    preferred_options: tuple[str, ...] = ()  # ids of the options to prefer among several of the same kind


UNKNOWN = Traits(denial="unknown", usage="unknown", mcp="session", steering="none", progress="output")
"""An agent that was never observed: what the protocol says, and no assumptions."""
