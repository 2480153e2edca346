"""Which folders Gemini CLI trusts: elsewhere it starts no MCP server."""

import json
from pathlib import Path

import pytest

from tieline.harnesses.gemini.integration import Gemini

HERE = Path("/home/me/shop")


@pytest.mark.parametrize(
    ("rules", "trusted"),
    [
        ({}, False),
        ({"/home/me/shop": "TRUST_FOLDER"}, True),
        ({"/home/me": "TRUST_FOLDER"}, True),
        ({"/home/me/other": "TRUST_PARENT"}, True),
        ({"/home/me/shop/below": "TRUST_FOLDER"}, False),
        ({"/home/me": "TRUST_FOLDER", "/home/me/shop": "DO_NOT_TRUST"}, False),
        ({"/home/me": "DO_NOT_TRUST", "/home/me/shop": "TRUST_FOLDER"}, True),
        (["no object"], False),
    ],
)
def test_the_nearest_rule_counts(rules: object, trusted: bool, tmp_path: Path) -> None:
    (tmp_path / ".gemini").mkdir()
    (tmp_path / ".gemini" / "trustedFolders.json").write_text(json.dumps(rules))
    assert Gemini().trusts(HERE, {"HOME": str(tmp_path)}) is trusted


def test_a_person_can_switch_it_off(tmp_path: Path) -> None:
    (tmp_path / ".gemini").mkdir()
    settings = tmp_path / ".gemini" / "settings.json"
    settings.write_text('{"security": {"folderTrust": {"enabled": false}}}')
    assert Gemini().trusts(HERE, {"HOME": str(tmp_path)})
    settings.write_text("{")
    assert not Gemini().trusts(HERE, {"HOME": str(tmp_path)})
    assert Gemini().trusts(HERE, {"HOME": str(tmp_path), "GEMINI_CLI_TRUST_WORKSPACE": "true"})
