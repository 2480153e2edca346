"""A conversation that has something of everything, as a person meets it: for screenshots and for tests."""

from tieline import events
from tieline.events import (
    Answer,
    Ask,
    Command,
    Diff,
    Done,
    Edit,
    Error,
    Init,
    Plan,
    PlanStep,
    Status,
    Text,
    Thinking,
    Tokens,
    ToolResult,
    ToolUse,
    TurnStarted,
    Usage,
    Warning,
)

CODE = '''I found the cause: **`greet`** joins its words with a `+`.

```python
def greet(name: str) -> str:
    """Says hello to somebody."""
    return "Hello " + name  # without a comma
```

What is left:

- [x] read the test
- [x] mend the greeting
- [ ] run *all* tests again

| file | lines |
| --- | --- |
| `greeting.py` | 5 |

```ts
export const answer = (question: string): number => 42 // of course
```
'''
PATCH = """--- a/greeting.py
+++ b/greeting.py
@@ -3,3 +3,4 @@ import sys
 def greet(name: str) -> str:
-    return "Hello " + name
+    # with a comma, and an exclamation mark
+    return f"Hello, {name}!"
"""
OUTPUT = "".join(f"test_{number:03}.py ......... passed in {number / 7:.2f} s\n" for number in range(400))
WARNINGS = ("the settings of the project name a tool that is not there: eslint", "the model was chosen by the agent")
EVENTS: list[events.Event] = [
    Init("scripted", commands=("/compact", "/review"), model="some-model", version="1.2.3"),
    TurnStarted("The greeting is wrong. Please fix it, then run the tests.", "prompt-1"),
    *[Warning(text) for text in WARNINGS],
    Status("commands", " ".join(f"/command-{number}" for number in range(30))),
    Thinking("The test expects a comma. Let me look at the file first.", item="1"),
    Plan((PlanStep("Read the test", "done"), PlanStep("Mend it", "done"), PlanStep("Run the tests", "running"))),
    ToolUse("t1", "Read", events.Read("greeting.py")),
    ToolResult("t1", "ok", "def greet(name):\n"),
    Text(CODE, item="2"),
    ToolUse("t2", "Edit", Edit(("greeting.py",), PATCH)),
    Ask("a1", "permission", tool="t2", action=Edit(("greeting.py",), PATCH)),
    Answer("a1", "allow", by="Phone", remember="session"),
    ToolResult("t2", "ok"),
    ToolUse("t3", "Bash", Command("python -m pytest -q")),
    Ask("a2", "permission", tool="t3", action=Command("python -m pytest -q"), reason="The tests have to pass."),
    Answer("a2", "allow", by="Phone"),
    ToolResult("t3", "ok", OUTPUT),
    ToolUse("t4", "Bash", Command("git push --force origin main")),
    Ask("a3", "permission", tool="t4", action=Command("git push --force origin main")),
    Answer("a3", "deny", by="Chrome on Linux", reason="open a pull request instead"),
    ToolResult("t4", "denied"),
    Diff(PATCH, ("greeting.py",)),
    Usage(Tokens(input=8200, output=640), context_window=200_000),
    Done("success", tokens=Tokens(input=8200, output=640, cost_usd=0.0312), duration_s=48.2),
    TurnStarted("And now the German one.", "prompt-2"),
    Error("429 too many requests: the quota of this hour is used up"),
    Done("error", error="429 too many requests: the quota of this hour is used up", duration_s=2.1),
]  # fmt: skip
