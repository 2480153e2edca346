"""What ACP agents do differently, as far as the protocol leaves it open or they do not follow it: the words in which a
preset (`acp_presets`) says it of one agent."""

from typing import Literal

from msgspec import Struct

Denial = Literal["told", "ends_turn", "cancelled", "unknown"]
"""What the agent makes of a denied call: it tells the model, which goes on · it ends the turn as if that had been
answered · it ends the turn as cancelled."""

Spending = Literal["turn", "session", "process", "last_call", "unknown"]
"""Whose tokens it tells at the end of a turn: the turn's · the session's so far · the session's since the agent was
started · those of the last model call."""

McpPassing = Literal["session", "argument", "refused"]
"""How MCP servers reach it: with the session, as the protocol has it · by an argument of its own · not at all: it would
lose them silently, so they are refused."""

Steering = Literal["none", "request", "drained"]
"""How it is told something in the middle of a turn: not at all · by the request `_session/steering` · it asks for it
itself, by `craft/drainMidTurnQueue`."""

Progress = Literal["output", "arguments", "description"]
"""What the content of a call that still runs is."""


class Replacements(Struct, frozen=True, kw_only=True):
    command: str  # what the edit's `command` is then
    entries: str  # the name of the list,
    old: str  # and in each entry those of the text before
    new: str  # and after


class Traits(Struct, frozen=True, kw_only=True):
    """What agents do differently. The first ones have no default: every preset states them."""

    denial: Denial
    usage: Spending
    mcp: McpPassing
    steering: Steering
    progress: Progress

    consents: tuple[str, ...] = ()  # ids of requests for permission that only a person may grant, whatever the policy
    denial_texts: tuple[str, ...] = ()  # patterns: its own words about a denial, not the model's answer
    notice_texts: tuple[str, ...] = ()  # patterns: a piece of an answer that is a notice of its own, not the model's
    error_texts: tuple[str, ...] = ()  # patterns: a turn that has this text alone has failed, whatever the agent says
    asks_together: bool = False  # an ask names no call: it is about all that have begun
    failure_path: tuple[str, ...] = ()  # where news of the session say how it is doing,
    failure: str = ""  # and what they say when the turn has failed: then its last text is the error
    title_is_action: bool = False  # an ask's title says all of what it is about
    usage_path: tuple[str, ...] = ("usage",)  # where the prompt's result has the tokens
    subagents_uncounted: bool = False  # what its subagents spend is not among them
    calls_uncounted: bool = False  # nor are some model calls, and nothing tells which
    chunk_usage_path: tuple[str, ...] = ()  # where a chunk of the answer has those of one model call
    output_path: tuple[str, ...] = ()  # where an update has output of the running call, beside its content
    output_whole: bool = False  # what is there is all of it so far, not what is new
    name_path: tuple[str, ...] = ()  # where a call has its tool's name
    replacements: Replacements | None = None  # where the input of an edit has what it replaces, told nowhere else
    mcp_marks: tuple[str, ...] = ()  # what marks a call of an MCP server's tool, or its ask, under `_meta`
    mcp_by_shell: bool = False  # a server's command and arguments go to a shell, put together without quotes
    command_prefixes: tuple[str, ...] = ()  # after one of these, the text of an ask is the command, or its beginning
    cut_mark: str = ""  # how a command ends there that was cut
    fork_keeps_servers: bool = False  # a copy of a conversation has the MCP servers of the original, whatever is given
    questions_path: tuple[str, ...] = ()  # where a call that asks for permission has questions instead
    title_is_question: bool = False  # a form's field has the question as its title, and a heading as its description
    note_suffix: str = ""  # the field for an answer in one's own words is called like the question's, with this
    preferred_options: tuple[str, ...] = ()  # ids of the options to pick where several are of the same kind


UNKNOWN = Traits(denial="unknown", usage="unknown", mcp="session", steering="none", progress="output")
"""An agent that nobody has seen: what the protocol says, and nothing taken for certain."""
