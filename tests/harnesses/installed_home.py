"""A person's home with one harness, and in it what `tieline install` writes for the hub of a test."""

import sys
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from tests.mesh.mcp_clients import PROGRAM

from tieline.harnesses import installer
from tieline.harnesses.base import Harness, InstallOptions
from tieline.testing.harness_terminals import HarnessHome


@asynccontextmanager
async def installed_home(
    opened: AbstractAsyncContextManager[HarnessHome], harness: Harness, path: Path
) -> AsyncGenerator[HarnessHome, None]:
    """The hub is `mesh_hub(path)`."""
    async with opened as home:
        env = {**home.env, "TIELINE_HOME": str(path / "state")}
        options = InstallOptions(env=env, program=PROGRAM, python=sys.executable)
        installer.apply(installer.plan_install(harness, options), env)
        yield home
