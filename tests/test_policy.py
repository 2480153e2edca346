"""Policies, presets, receipts."""

import msgspec
import pytest

from tieline import policy
from tieline.errors import UsageError
from tieline.policy import CAPABILITIES, PRESETS, Enforcement, Policy, Receipt, every_policy, preset


def test_there_are_27() -> None:
    assert len(set(every_policy())) == 27


def test_the_default_asks() -> None:
    assert Policy() == Policy("ask", "ask", "ask") == preset("ask")


def test_presets() -> None:
    assert set(PRESETS) == {"read-only", "ask", "edits", "full"}
    assert all(preset("read-only").level(capability) == "deny" for capability in CAPABILITIES)
    assert preset("edits") == Policy("allow", "ask", "ask")
    assert preset("full") == Policy("allow", "allow", "allow")


def test_malformed() -> None:
    with pytest.raises(UsageError, match="shell") as caught:
        Policy(shell="maybe")  # type: ignore[arg-type]
    assert "allow, ask, deny" in caught.value.hint
    with pytest.raises(UsageError, match="yolo") as caught:
        preset("yolo")
    assert "read-only" in caught.value.hint


def test_what_nothing_holds_is_unenforced() -> None:
    receipt = Receipt(
        file_write=Enforcement("allow", "none"), shell=Enforcement("deny", "none"), network=Enforcement("ask", "prompt")
    )
    assert receipt.unenforced() == ("shell",)


def test_a_receipt_says_what_remains(monkeypatch: pytest.MonkeyPatch) -> None:
    def remains(shell: Enforcement) -> str:
        other = Enforcement("ask", "prompt")
        return " ".join(Receipt(file_write=other, shell=shell, network=other).remains)

    assert "whatever you can" in remains(Enforcement("ask", "prompt"))
    assert "sandbox" in remains(Enforcement("deny", "sandbox"))
    assert "not the system" in remains(Enforcement("deny", "rule"))
    monkeypatch.setattr(policy, "SUBREAPERS", False)
    assert "is taken for yours" in remains(Enforcement("deny", "rule")), "where it is weaker, it says so"


def test_a_receipt_of_another_machine_keeps_its_words() -> None:
    lines = {name: Enforcement("ask", "prompt") for name in CAPABILITIES}
    sent = msgspec.json.encode(Receipt(**lines, remains=("said there",)))
    assert msgspec.json.decode(sent, type=Receipt).remains == ("said there",)
