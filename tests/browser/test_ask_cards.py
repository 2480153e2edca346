"""Every shape of ask on the page, at a phone's width and a desktop's: each character of it is on the screen."""

from pathlib import Path

import pytest
from playwright.async_api import Browser
from tests.browser.cards import WIDTHS, ask_page
from tests.browser.conftest import ARTIFACTS

from tieline.ask_parts import ask_parts
from tieline.events import Ask, Choice, Command, Edit, Fetch, Mcp, OtherAction, Question, Read, Search
from tieline.sessions.records import AskRecord, SessionRecord, digest
from tieline.visible_text import hidden

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

FILLER = [f"echo this is line {number} of many; true  # {'x' * 30}" for number in range(300)]
BIDI = "echo FIRST \u202egnp.exe\u202c\u200b MIDDLE\u00a0x\u2066 && echo \u061cLAST"
NESTED = {"query": {"deep": ["FIRST", {"er": "MIDDLE\u200b"}]}, "flag": False, "many": "a\nb\nLAST"}
QUESTION = Question(
    id="1", text="FIRST, which\u200b?", header="Colour", choices=(Choice("a", "MIDDLE", "which is \u202ered"),)
)
BARE = "--- a/greeting.py\n+++ b/greeting.py\n@@ @@\n-FIRST\n-MIDDLE\n+LAST\n"
WRITTEN = ["FIRST", *FILLER[:200], "MIDDLE", *FILLER[200:], "LAST"]
LARGE = "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1,303 @@\n" + "".join(f"+{line}\n" for line in WRITTEN)
PLAN = "1. FIRST\n2. [MIDDLE](https://hidden.example)\n<!-- LAST -->"
MARKERS = ("FIRST", "MIDDLE", "LAST")


def permission(action: object, **more: object) -> Ask:
    return Ask("a", "permission", action=action, **more)  # type: ignore[arg-type]


SHAPES: dict[str, tuple[Ask, tuple[str, ...]]] = {
    "edit": (permission(Edit(("greeting.py",), BARE), remember=("session",), scopes={"session": "all edits here"}),
             ("+1", "−2", *MARKERS, "greeting.py", "all edits here")),
    "large write": (permission(Edit(("new.txt",), LARGE)), ("new.txt", *MARKERS, *FILLER)),
    "no diff": (permission(Edit(("x",), "*** FIRST\nMIDDLE\n@@\n+LAST")), MARKERS),
    "long command": (permission(Command("\n".join(["FIRST", *FILLER[:9], "MIDDLE", *FILLER, "LAST"]), "/tmp")),
                     (*MARKERS, *FILLER, "/tmp")),
    "one line of 20 KB": (permission(Command(f"echo FIRST{'x' * 10_000}MIDDLE{'y' * 10_000}LAST")),
                          (f"FIRST{'x' * 10_000}MIDDLE{'y' * 10_000}LAST",)),
    "spaces": (permission(Command(f"echo FIRST{' ' * 400}MIDDLE{' ' * 400}LAST")),
               (f"FIRST{' ' * 400}MIDDLE{' ' * 400}LAST",)),
    "bidi": (permission(Command(BIDI)),
             ("FIRST ⟨U+202E⟩gnp.exe⟨U+202C⟩⟨U+200B⟩ MIDDLE⟨U+00A0⟩x⟨U+2066⟩ && echo ⟨U+061C⟩LAST",)),
    "fetch": (permission(Fetch("https://FIRST.example/MIDDLE?q=\u200b#LAST")),
              ("https://FIRST.example/MIDDLE?q=⟨U+200B⟩#LAST",)),
    "mcp": (permission(Mcp("a\u202eserver", "a tool"), input=NESTED), (*MARKERS, "a⟨U+202E⟩server", "a tool", "false")),
    "read": (permission(Read("/etc/FIRST/MIDDLE/LAST")), ("/etc/FIRST/MIDDLE/LAST",)),
    "search": (permission(Search("FIRST MIDDLE", "LAST")), MARKERS),
    "unknown": (permission(OtherAction(), title="FIRST", input={"MIDDLE": "LAST"}), MARKERS),
    "plan": (Ask("a", "plan", plan=PLAN), ("FIRST", "[MIDDLE](https://hidden.example)", "<!-- LAST -->")),
    "question": (Ask("a", "question", questions=(QUESTION,), reason="LAST"),
                 ("FIRST, which⟨U+200B⟩?", "MIDDLE", "which is ⟨U+202E⟩red", "LAST", "Colour")),
    "withheld": (permission(Edit(("FIRST",)), withheld="The agent does not tell MIDDLE what it writes. LAST"), MARKERS),
}  # fmt: skip
FOLDED = {"large write", "long command", "one line of 20 KB"}
LOOKED_AT = {"edit", "bidi", "withheld"}


async def test_each_shape_is_shown_whole(browser: Browser, tmp_path: Path) -> None:
    session = SessionRecord(id="s", agent="scripted", cwd="/home/me/shop", title="a \u202etitle")
    ARTIFACTS.mkdir(parents=True, exist_ok=True)
    wrong: list[str] = []
    async with ask_page(browser, tmp_path) as asks:
        for number, (name, (ask, expected)) in enumerate(SHAPES.items()):
            record = AskRecord(
                id=f"a{number}", session="s", ask=ask, digest=digest(ask), expires_at=4e9, parts=ask_parts(ask)
            )
            for width in WIDTHS:
                card = await asks.card(record, session, width)
                asked = await card.show()
                assert asked == (name in FOLDED), name
                text = await card.text()
                cell = f"{name} × {width}"
                wrong += [
                    f"{cell}: {words[:80]} cannot be seen in {text[:900]}" for words in expected if words not in text
                ]
                wrong += [
                    f"{cell}: U+{ord(character):04X} cannot be seen" for character in set(text) if hidden(character)
                ]
                assert (await card.allow.count() > 0) == (not ask.withheld), cell
                if name in LOOKED_AT:
                    await card.root.screenshot(path=ARTIFACTS / f"card-{name}-{width[5:]}.png")
    assert not wrong, "\n".join(wrong)
