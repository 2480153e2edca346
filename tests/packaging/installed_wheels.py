"""Wheels made again from what is installed here, so that a package can be installed where no index is reached."""

import re
import zipfile
from collections.abc import Iterable
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

NOT_PART = {"INSTALLER", "REQUESTED", "direct_url.json"}
"""What an installer leaves beside a distribution's own metadata."""


def closure(requirements: Iterable[str]) -> dict[str, Distribution]:
    """The installed distributions that these requirements lead to, by name."""
    distributions: dict[str, Distribution] = {}
    waiting: list[tuple[Requirement, str]] = [(Requirement(text), "") for text in requirements]
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = re.sub(r"[-_.]+", "_", requirement.name).lower()
        known = name in distributions
        if not known:
            distributions[name] = distribution(requirement.name)
        for wanted in (*requirement.extras, *(() if known else ("",))):
            waiting += [(Requirement(text), wanted) for text in distributions[name].requires or ()]
    return distributions


def pack(name: str, dist: Distribution, folder: Path) -> Path:
    """One wheel of an installed distribution."""
    about = dist.read_text("WHEEL") or ""
    tags = [line.partition(": ")[2].split("-") for line in about.splitlines() if line.startswith("Tag: ")]
    tag = "-".join(".".join(dict.fromkeys(parts)) for parts in zip(*tags, strict=True))
    wheel = folder / f"{name}-{dist.version}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for file in dist.files or ():
            outside = file.parts[0] == ".."  # the scripts, which an installer writes
            if not outside and "__pycache__" not in file.parts and file.name not in NOT_PART:
                archive.write(str(file.locate()), str(file))
    return wheel
