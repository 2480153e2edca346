"""Which terminals Tieline may read along: per harness since when, and in which directories not. A file of its owner's,
written by `tieline install --attach` and `tieline attach`."""

import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from .. import paths
from ..errors import TielineError
from ..safe_file_write import replace_private_file

FILE = "attach.json"
STARTS_S = 2.0
"""Clocks of harnesses are rounded: a session that began so shortly before the consent is one that it is about."""


class ConsentUnreadable(TielineError):
    """The file is there and says nothing that can be understood: then nothing is read along."""


class Consent(Struct, frozen=True, omit_defaults=True):
    since: dict[str, float] = {}  # harness → when its owner agreed
    off: tuple[str, ...] = ()  # directories, with all below them
    on: dict[str, float] = {}  # directories that were off → when they were switched on again

    def allows(self, harness: str, cwd: str, began_at: float) -> bool:
        """Only sessions that began after the consent, and in no directory that is off."""
        agreed = self.since.get(harness)
        if agreed is None or began_at < agreed - STARTS_S:
            return False
        return not self.is_off(cwd)

    def is_off(self, cwd: str) -> bool:
        return bool(_at_or_above(cwd, self.off))

    def on_since(self, cwd: str) -> float:
        """What happened there before is not read: it was off. 0: it never was."""
        return max((self.on[folder] for folder in _at_or_above(cwd, self.on)), default=0.0)


def _at_or_above(cwd: str, folders: Iterable[str]) -> list[str]:
    """The folders that contain this directory."""
    if not (known := list(folders)):
        return []
    directory = Path(os.path.realpath(cwd))
    return [folder for folder in known if directory == Path(folder) or Path(folder) in directory.parents]


def consent_file(env: Mapping[str, str]) -> Path:
    return paths.state(env) / FILE


def read_consent(env: Mapping[str, str]) -> Consent:
    """Raises ConsentUnreadable."""
    file = consent_file(env)
    try:
        return msgspec.json.decode(file.read_bytes(), type=Consent)
    except FileNotFoundError:
        return Consent()
    except (OSError, msgspec.MsgspecError) as error:
        raise ConsentUnreadable(
            f"{file} cannot be read: {error}", hint="Remove it, and agree again with `tieline install --attach`."
        ) from None


def write_consent(env: Mapping[str, str], consent: Consent) -> None:
    text = msgspec.json.format(msgspec.json.encode(consent, order="sorted"), indent=2) + b"\n"
    replace_private_file(consent_file(env), text)


def agree(env: Mapping[str, str], harness: str, *, now: float | None = None) -> None:
    """Read along in this harness's terminals from now on. An earlier consent stays as it is."""
    consent = read_consent(env)
    if harness not in consent.since:
        write_consent(env, replace(consent, since={**consent.since, harness: time.time() if now is None else now}))


def withdraw(env: Mapping[str, str], harness: str) -> None:
    consent = read_consent(env)
    if harness in consent.since:
        write_consent(env, replace(consent, since={name: at for name, at in consent.since.items() if name != harness}))


def switch(env: Mapping[str, str], folder: str, *, on: bool, now: float | None = None) -> None:
    """Switch consent on or off for a directory and everything below it. Switched on below a directory where it is off,
    it counts for the lower directory only."""
    consent, directory = read_consent(env), os.path.realpath(folder)
    if on == (directory not in consent.off):
        return
    off = tuple(each for each in consent.off if each != directory)
    since = {each: at for each, at in consent.on.items() if each != directory}
    if on:
        since[directory] = time.time() if now is None else now
    else:
        off = (*off, directory)
    write_consent(env, replace(consent, off=off, on=since))


class CurrentConsent:
    """The consent as the file has it now; looked at again when it was changed."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self._stamp: tuple[int, int] | None = (-1, -1)
        self._consent = Consent()

    def allows(self, harness: str, cwd: str, began_at: float) -> bool:
        return self._current().allows(harness, cwd, began_at)

    def on_since(self, cwd: str) -> float:
        return self._current().on_since(cwd)

    def _current(self) -> Consent:
        try:
            about = consent_file(self._env).stat()
            stamp = (about.st_ino, about.st_mtime_ns)
        except OSError:
            stamp = None
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._consent = read_consent(self._env)
            except ConsentUnreadable:
                self._consent = Consent()
        return self._consent
