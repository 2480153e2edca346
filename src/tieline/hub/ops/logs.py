"""What the hub writes down: JSON lines in its log file, readable words on a terminal.

Nothing in it gives access or repeats what people and agents said to each other: values under telling names are left
out, and whatever looks like a key or a secret is blotted out wherever it stands.
"""

import logging
import logging.handlers
import os
import re
import time
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any, TextIO

import structlog
from structlog.typing import Processor

MAX_FILE = 10 * 1024 * 1024
FILES = 3
REPEAT_S = 60.0
MAX_TOLD = 100
"""Messages of libraries that are remembered to tell repetitions."""
LOGGERS = ("", "tieline", "uvicorn")
"""The first stands for all others. What nobody handled would go to the standard error, which is the file in the raw:
never rotated, never redacted."""
MAX_TEXT = 4000
"""Characters of one value; a traceback fits."""

SECRET = frozenset(
    {"token", "key", "secret", "authorization", "cookie", "csrf", "password", "set-cookie", "auth", "p256dh", "private"}
)
CONTENT = frozenset({"text", "prompt", "body", "data", "content", "answer", "answers", "reason", "system", "payload"})
"""Names of what people and agents say."""

_KEYS = re.compile(
    r"tl_[A-Za-z0-9_-]{8,}|(?<=[#&?]login=)[^\s&\"']+|(?<=[#&?]pair=)[^\s&\"']+|(?i:(?<=bearer )\S+)"
    r"|\bsk-[A-Za-z0-9_-]{8,}|\btieline-\d+=[^\s;\"']+"
)
REDACTED = "[redacted]"


def redact(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A step of every log line."""
    for name, value in event.items():
        event[name] = _clean(name, value)
    return event


def _clean(name: str, value: Any) -> Any:
    plain = name.lower().replace("_", "-")
    if plain in SECRET:
        return REDACTED
    if plain in CONTENT and value:
        return f"[{len(value) if isinstance(value, str | bytes) else 'some'} not shown]"
    if isinstance(value, str):
        redacted = _KEYS.sub(REDACTED, value)
        return redacted if len(redacted) <= MAX_TEXT else redacted[:MAX_TEXT] + "…"
    if isinstance(value, Mapping):
        inside: Mapping[Any, Any] = value  # type: ignore[reportUnknownVariableType]
        return {key: _clean(str(key), each) for key, each in inside.items()}
    if isinstance(value, list | tuple):
        items: list[Any] = list(value)  # type: ignore[reportUnknownArgumentType]
        return [_clean("", each) for each in items]
    return value


_SHARED: tuple[Processor, ...] = (
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.PositionalArgumentsFormatter(),
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.format_exc_info,
    redact,
)


def logger(name: str) -> structlog.stdlib.BoundLogger:
    """Goes through the standard library's logger of the name: whoever set no handler up hears nothing."""
    return structlog.wrap_logger(
        _standard(f"tieline.{name}"),
        processors=[
            structlog.stdlib.filter_by_level,
            *_SHARED,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def _standard(name: str) -> logging.Logger:
    root = logging.getLogger("tieline")
    if not root.handlers:
        root.addHandler(logging.NullHandler())
    return logging.getLogger(name)


class Logs:
    """`with Logs(file, terminal)`: inside, what is logged goes there. Either may be None."""

    def __init__(self, file: Path | None, terminal: TextIO | None = None, *, level: int = logging.INFO) -> None:
        self._file = file
        self._terminal = terminal
        self._level = level
        self._handlers: list[logging.Handler] = []

    def __enter__(self) -> "Logs":
        if self._file is not None:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
            self._file.chmod(0o600)
            handler = _Private(self._file, maxBytes=MAX_FILE, backupCount=FILES, encoding="utf-8")
            self._add(handler, structlog.processors.JSONRenderer())
        if self._terminal is not None:
            shown = structlog.dev.ConsoleRenderer(colors=self._terminal.isatty())
            self._add(logging.StreamHandler(self._terminal), shown)
        for name in ("tieline", "uvicorn"):
            package_logger = logging.getLogger(name)
            package_logger.setLevel(self._level if name == "tieline" else logging.WARNING)
            package_logger.propagate = False
        for name in LOGGERS:
            for handler in self._handlers:
                logging.getLogger(name).addHandler(handler)
        return self

    def __exit__(self, *_: object) -> None:
        for name in ("tieline", "uvicorn"):
            package_logger = logging.getLogger(name)
            package_logger.setLevel(logging.NOTSET)
            package_logger.propagate = True
        for name in LOGGERS:
            for handler in self._handlers:
                logging.getLogger(name).removeHandler(handler)
        for handler in self._handlers:
            handler.close()
        self._handlers = []

    def _add(self, handler: logging.Handler, renderer: Processor) -> None:
        handler.setFormatter(
            structlog.stdlib.ProcessorFormatter(
                foreign_pre_chain=list(_SHARED),
                processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
            )
        )
        handler.addFilter(_is_relevant)
        handler.addFilter(_Repetitions())
        self._handlers.append(handler)


def _is_foreign(record: logging.LogRecord) -> bool:
    return record.name.partition(".")[0] != "tieline"


def _is_relevant(record: logging.LogRecord) -> bool:
    """uvicorn takes an upgrade that was refused with a reason for one that was forgotten."""
    if record.msg == "ASGI callable returned without completing handshake.":
        return False
    return not _is_foreign(record) or record.levelno >= logging.WARNING


class _Repetitions(logging.Filter):
    """The very same of a library, again and again: once a minute. asyncio tells of each connection that it cannot take,
    thousands in a second."""

    def __init__(self) -> None:
        super().__init__()
        self._told: dict[tuple[str, str], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if not _is_foreign(record):
            return True
        key, now = (record.name, record.getMessage()), time.monotonic()
        if now - self._told.get(key, -REPEAT_S) < REPEAT_S:
            return False
        if len(self._told) >= MAX_TOLD:
            self._told.clear()
        self._told[key] = now
        return True


class _Private(logging.handlers.RotatingFileHandler):
    """Its files are for their owner alone, also the next one. A line is formatted once: the standard library's handler
    formats it a second time to see whether it still fits."""

    def shouldRollover(self, record: logging.LogRecord) -> bool:
        return self.stream is not None and self.stream.tell() >= self.maxBytes  # pyright: ignore[reportUnnecessaryComparison] (None after an error)

    def _open(self) -> Any:
        return open(os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", encoding="utf-8")  # noqa: PTH123 - of a descriptor
