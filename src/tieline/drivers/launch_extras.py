"""What a session may add to its agent's command line and environment.

Whoever starts a session is not who owns the machine: what they add must not undo the policy that holds the agent, nor
reach Tieline's own state. What a machine's owner wants for every session of an agent belongs into `[agents.NAME]`.
"""

import re
from collections.abc import Mapping, Sequence

from ..environment import OURS
from ..errors import UsageError

MAX_EXTRAS = 100
MAX_EXTRA = 32_768
"""Characters of one argument, or of one variable with its value."""

_VARIABLE = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]{0,99})=(?P<value>[^\0]*)", re.DOTALL)
# By these an interpreter, a loader, git, a shell or an agent finds code, settings, credentials or the way out.
_STEERS = re.compile(
    r"(LD|DYLD|NODE|NPM|BUN|DENO|PYTHON|PERL|RUBY|JAVA|JDK|GIT|SSH|BASH|ZSH|XDG|SUDO|CLAUDE|ANTHROPIC|CODEX|OPENAI|"
    r"GEMINI|GOOGLE|GCLOUD|VERTEX|AWS|AZURE|QWEN|OPENCODE|OPENROUTER|CURSOR|COPILOT|GITHUB|GOOSE|KIMI|MOONSHOT|AMP|MCP)"
    r"(_.*|[A-Z]*)"
    r"|PATH|HOME|SHELL|ENV|USER|LOGNAME|PWD|TMPDIR|TMP|TEMP|IFS|PS4|PROMPT_COMMAND|EDITOR|VISUAL|PAGER|BROWSER"
    r"|SSL_.*|CURL_.*|REQUESTS_.*|.*_PROXY|.*_BASE_URL|.*_CONFIG(_.*)?|.*_HOME|.*_OPTIONS|.*_OPTS|.*_SETTINGS",
    re.IGNORECASE,
)


def check_extras(agent: str, arguments: Sequence[str], environment: Sequence[str], *, held: bool) -> None:
    """Refuse what a session may not add. `held`: the agent is held to a policy."""
    own = f"On that machine, `args` and `env` of an agent in tieline.toml may: see [agents.NAME]. {agent} itself stays."
    for field, given in (("arguments", arguments), ("environment", environment)):
        if len(given) > MAX_EXTRAS or any(len(each) > MAX_EXTRA or "\0" in each for each in given):
            limit = f"at most {MAX_EXTRAS} of {MAX_EXTRA:,} characters, without null bytes"
            raise UsageError(f"{field}: {limit}", field=field)
    if arguments and held:
        problem = "a session adds arguments only with the policy full: they could change what its agent may do"
        raise UsageError(problem, field="arguments", hint=own)
    for each in environment:
        match = _VARIABLE.fullmatch(each)
        if match is None:
            raise UsageError(f"{each[:100]!r} is not a variable", field="environment", hint="Write NAME=value.")
        if match["name"].upper().startswith(OURS):
            raise UsageError(f"{match['name']} is Tieline's own variable", field="environment", hint="Leave it out.")
        if held and _STEERS.fullmatch(match["name"]):
            problem = f"a session sets {match['name']} only with the policy full: it could change what its agent may do"
            raise UsageError(problem, field="environment", hint=own)


def with_environment(env: Mapping[str, str], environment: Sequence[str]) -> Mapping[str, str]:
    """The agent's environment with what its session adds."""
    added = (each.partition("=") for each in environment)
    return {**env, **{name: value for name, _, value in added}} if environment else env
