"""What is known of programs, for rules that allow commands by their first words: which run whatever their arguments
say, and by which arguments others do. A help against mistakes: no such list is complete."""

import re
from collections.abc import Sequence

from msgspec import Struct

WRAPPERS = frozenset(
    ("env", "sudo", "doas", "su", "xargs", "nohup", "nice", "time", "timeout", "setsid", "stdbuf", "eval", "exec",
     "command", "builtin", "source", ".", "ssh", "watch", "parallel", "busybox", "deno", "pipx", "trap", "coproc",
     "strace", "ltrace", "gdb", "flock", "script", "unshare", "nsenter", "chroot", "runuser", "pkexec", "ionice",
     "chrt", "taskset", "setpriv", "setarch", "systemd-run", "bwrap", "firejail", "caffeinate", "entr", "expect",
     "awk", "gawk", "mawk", "sed", "ed", "ex", "vi", "vim", "nvim", "emacs", "sqlite3", "psql", "mysql", "at", "batch",
     "crontab", "tmux", "screen", "alias", "function", "hash", "enable", "bind", "nix-shell")
)  # fmt: skip
"""Programs that run whatever their arguments say: a prefix of one would allow everything."""

RUNNERS = frozenset(
    tuple(words.split())
    for words in (
        "git", "git bisect", "git bisect run", "git submodule", "git submodule foreach", "git config", "git difftool",
        "git filter-branch", "npm", "npm exec", "npm x", "npm config", "pnpm", "pnpm exec", "pnpm dlx", "yarn",
        "yarn exec", "yarn dlx", "yarn node", "bun x", "bun run", "uv", "uv run", "uv tool", "uv tool run", "poetry",
        "poetry run", "pdm", "pdm run", "pipenv", "pipenv run", "hatch", "hatch run", "conda", "conda run", "tox exec",
        "bundle", "bundle exec", "cargo", "go", "go run", "go generate", "docker", "docker run", "docker exec",
        "docker compose", "docker compose run", "docker compose exec", "podman", "podman run", "podman exec", "kubectl",
        "kubectl exec", "kubectl run", "nix", "nix run", "nix shell", "nix develop", "tar", "gh", "gh alias",
        "gh extension",
    )
)  # fmt: skip
"""Words after which such a program's name may come, or a setting that names one."""

_INTERPRETER = re.compile(
    r"python[\d.]*|pypy[\d.]*|(?:ba|da|z|k|mk|a|c|tc|fi|pw|rba)?sh|node|nodejs|bun|perl|ruby|php|lua|npx|pnpx|bunx|uvx"
)
"""Programs that run what their first argument names, or whatever an option says."""


class Steering(Struct, frozen=True):
    """The options by which a program runs another one, reads settings that may, or writes where they say."""

    letters: str = ""
    words: tuple[str, ...] = ()
    assignments: bool = False  # NAME=value is one of them


_NPM = Steering("C", ("--script-shell", "--node-options", "--prefix", "--userconfig", "--globalconfig", "--dir"))
_CURL = Steering("oOKTDc", ("--output", "--output-dir", "--remote-name", "--config", "--upload-file", "--dump-header"))
_MAKE = Steering("fICE", ("--eval", "--file", "--makefile", "--directory", "--include-dir"), assignments=True)
_FIND = ("-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf", "-fls")
STEERING = {
    "git": Steering("cxO", ("--config-env", "--config", "--exec-path", "--exec", "--output", "--ext-diff", "--textconv",
        "--open-files-in-pager", "--upload-pack", "--receive-pack", "--extcmd", "--template", "--git-dir")),
    "find": Steering("", _FIND),
    "fd": Steering("xX", ("--exec", "--exec-batch")),
    "fdfind": Steering("xX", ("--exec", "--exec-batch")),
    "rg": Steering("", ("--pre", "--hostname-bin")),
    "sort": Steering("oT", ("--output", "--compress-program", "--temporary-directory")),
    "tar": Steering("IF", ("--to-command", "--checkpoint-action", "--use-compress-program", "--rsh-command",
        "--rmt-command", "--info-script", "--new-volume-script")),
    "npm": _NPM,
    "pnpm": _NPM,
    "yarn": _NPM,
    "make": _MAKE,
    "gmake": _MAKE,
    "cargo": Steering("Z", ("--config", "--manifest-path")),
    "go": Steering("", ("-exec", "-toolexec", "-vettool", "-overlay", "-modfile", "-C")),
    "rsync": Steering("e", ("--rsh", "--rsync-path")),
    "scp": Steering("oSFD"),
    "curl": _CURL,
    "wget": Steering("oOPe", ("--output-document", "--output-file", "--directory-prefix", "--execute", "--use-askpass",
        "--config")),
    "zip": Steering("T", ("--unzip-command", "--test")),
    "man": Steering("PHC", ("--pager", "--html", "--config-file")),
    "less": Steering("oOk", ("--log-file", "--lesskey-file", "--lesskey-src")),
    "tree": Steering("o"),
}  # fmt: skip


def module_option(words: Sequence[str]) -> bool:
    """`python -m pytest` names what it runs, too."""
    return _program(words).startswith("python") and words[1:2] == ("-m",)


def runs_anything(words: tuple[str, ...]) -> bool:
    """Whether what comes after these words may be any program."""
    program = _program(words)
    if program in WRAPPERS or (program, *words[1:]) in RUNNERS:
        return True
    if not _INTERPRETER.fullmatch(program):
        return False
    named = words[2 if module_option(words) else 1 :]
    return not named or named[0].startswith("-")


def steers(words: Sequence[str], known: int) -> bool:
    """Whether an argument after the first `known` words makes a known program run another one, or write elsewhere."""
    steering = STEERING.get(_program(words))
    return steering is not None and any(_is_one_of(word, steering) for word in words[known:])


def _is_one_of(word: str, steering: Steering) -> bool:
    name = word.partition("=")[0]
    if not name.startswith("-"):
        return steering.assignments and "=" in word
    if name in steering.words or name[1:] in steering.words:  # Go takes `--exec` for `-exec`
        return True
    if name.startswith("--"):  # many programs take a beginning of an option for all of it
        return len(name) > 2 and any(option.startswith(name) for option in steering.words)
    return any(letter in steering.letters for letter in word[1:])


def _program(words: Sequence[str]) -> str:
    return words[0].rpartition("/")[2]
