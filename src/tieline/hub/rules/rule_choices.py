"""The rules that an ask could become, the narrowest first. Each of them would have answered that very ask."""

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec.structs import replace

from ...errors import UsageError
from ...events import Ask, Command, Edit, Fetch, Mcp, Read
from ...protocol.rules import NewRule, RuleChoice
from ...sessions.ask_rules import (
    BLANKS,
    AskOrigin,
    AskRule,
    Files,
    RuleMatch,
    check_rule,
    host_of,
    matches,
    subject_text,
)
from ...sessions.known_programs import module_option
from ...sessions.shell_words import shell_words

MAX_PREFIX = 3
"""Words of the longest prefix that is offered."""


def rule_from(new: NewRule, id: str = "new") -> AskRule:
    return msgspec.convert(msgspec.to_builtins(new) | {"id": id}, AskRule)


def rule_choices(ask: Ask, origin: AskOrigin, files: Files) -> list[RuleChoice]:
    """In the ask's project, on its machine; a person may widen that. None: only people can decide such an ask."""
    choices: list[RuleChoice] = []
    directory = files.resolve(origin.cwd)
    for match, pattern in dict.fromkeys(_patterns(ask, origin, files)):
        new = NewRule(match=match, pattern=pattern, directory=directory, node=origin.node, ask=ask.id)
        rule = rule_from(new)
        try:
            check_rule(rule)
            check_rule(replace(rule, directory=""))
        except UsageError:
            continue
        if matches(rule, ask, origin, files):
            choices.append(RuleChoice(label=subject_text(rule), rule=new))
    return choices


def _patterns(ask: Ask, origin: AskOrigin, files: Files) -> Iterator[tuple[RuleMatch, str]]:
    match ask.action:
        case Command(command):
            yield "exact", command.strip(BLANKS)
            words = shell_words(command)
            begin = 2 if words and module_option(words) else 0
            options = (number for number, word in enumerate(words) if number >= begin and word.startswith("-"))
            plain = next(options, len(words))
            for number in range(min(plain, MAX_PREFIX), 0, -1):
                if all(word == "".join(shell_words(word)) for word in words[:number]):  # no quotes needed
                    yield "prefix", " ".join(words[:number])
        case Edit(paths) if paths:
            for path in _path_patterns(paths, origin, files):
                yield "edit", path
        case Read(path) if path:
            for pattern in _path_patterns((path,), origin, files):
                yield "read", pattern
        case Fetch(url):
            if host := host_of(url):
                yield "host", host
                if host.count(".") > 1:
                    yield "host", "." + host.partition(".")[2]
        case Mcp(server, tool):
            yield "tool", f"{server}/{tool}"
        case _:
            pass


def _path_patterns(paths: tuple[str, ...], origin: AskOrigin, files: Files) -> Iterator[str]:
    if any("\0" in path for path in paths):
        return
    real = [files.resolve(str(Path(origin.cwd, path))) for path in paths]
    if len(set(real)) == 1:
        yield real[0]
    yield os.path.commonpath([str(Path(path).parent) for path in real]).rstrip("/") + "/"
    yield files.resolve(origin.cwd).rstrip("/") + "/"
