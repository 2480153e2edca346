"""Git's settings for a repository, its own and its user's, as data; and who commits."""

import os
from collections.abc import Mapping

from msgspec import Struct

from .git_repository import Repository
from .safe_git import Git


class Identity(Struct, frozen=True):
    """Who commits."""

    name: str
    email: str

    def env(self) -> dict[str, str]:
        who = {"NAME": self.name, "EMAIL": self.email}
        return {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in who.items()}


TIELINE = Identity("Tieline", "tieline@localhost.invalid")
NOBODY = "git does not know who you are"
TELL_GIT = 'Tell it: git config --global user.name "…" and git config --global user.email "…"'


class GitConfig(Struct, frozen=True):
    own: Mapping[str, str]  # the repository's
    user: Mapping[str, str]  # the user's own, for every repository

    def get(self, name: str) -> str:
        return self.own.get(name) or self.user.get(name, "")

    def identity(self, env: Mapping[str, str]) -> Identity | None:
        """Who the user is to git: by the environment, the repository's settings, the user's own."""
        name = env.get("GIT_AUTHOR_NAME") or self.get("user.name")
        email = env.get("GIT_AUTHOR_EMAIL") or self.get("user.email")
        return Identity(name, email) if name and email else None


async def read_settings(git: Git, repository: Repository, env: Mapping[str, str]) -> GitConfig:
    """The last value of each setting. Raises GitFailed."""
    copy = git.directory / "their-config"  # read without the files that it includes
    copy.write_bytes(repository.config)
    own = _pairs(await git.run("config", "--file", str(copy), "--no-includes", "-z", "--list"))
    # With the repository's own git directory: conditions in the user's configuration (includeIf) compare it.
    git_dir_env = {"GIT_DIR": repository.git_dir}
    words = ("config", "--global", "--includes", "-z", "--list")
    return GitConfig(own, _pairs(await git.run_as_user(*words, user=env, env=git_dir_env, codes=(0, 1, 128))))


def _pairs(listed: bytes) -> Mapping[str, str]:
    settings: dict[str, str] = {}
    for entry in listed.split(b"\0"):
        name, separator, value = entry.partition(b"\n")
        if name:
            settings[os.fsdecode(name)] = os.fsdecode(value) if separator else "true"
    return settings
