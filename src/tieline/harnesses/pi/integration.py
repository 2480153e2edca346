"""Pi: an extension that connects its session to the hub and gives it the mesh's tools, instructions in AGENTS.md, a
prompt template."""

from ..base import AttachTerms, Capabilities, Harness, InstallOptions, ManagedFile, TerminalEvents
from ..editors.whole_file import WholeFile
from ..instructions import COMMAND, instructions_in
from ..plugin_file import plugin_text


class PiIntegration(Harness):
    name = "pi"
    display_name = "Pi"
    attach_terms = AttachTerms(
        reads="the entries of its sessions, by the extension, as Pi writes them down",
        can="prompt, steer and interrupt a session",
        tells=TerminalEvents(
            session_start="extension",
            session_end="the extension's connection ends",
            prompt="extension",
            words_in_a_turn="extension",
            text="extension, a whole answer at a time",
            text_deltas="",
            tool_start="extension",
            tool_end="extension",
            permission_ask="",
            answer_at_the_terminal="",
            question="",
            turn_end="extension",
            compaction="extension, with the next turn",
            idle_or_busy="extension",
            model_change="extension, with the next answer",
            mode_change="",
            usage="extension",
        ),
    )
    resume_command = ("pi", "--session")
    programs = ("pi",)
    package = "@earendil-works/pi-coding-agent"
    folders = (".pi",)
    tested = "0.87.1"
    capabilities = Capabilities(
        tools="its extension calls the tools: Pi has no MCP client",
        hooks="an extension inside its own process, which connects to the hub",
        mid_turn="the extension's message, after the tool that runs",
        turn_end="the extension's message",
        idle_wake="the extension's prompt",
        session_id="the extension adds it to every call",
        registers_itself=True,
        instructions="`AGENTS.md`",
        compaction="`AGENTS.md` stays in its context",
        slash_command="`/tieline`",
    )

    def files(self, options: InstallOptions) -> list[ManagedFile]:
        folder = options.root / ".pi" if options.project else options.folder("PI_CODING_AGENT_DIR", ".pi/agent")
        memory = options.root if options.project else folder
        extension = WholeFile(self.name, plugin_text("pi/extension.js", options))
        return [
            ManagedFile(folder / "extensions/tieline.js", extension, "extension"),
            instructions_in(memory / "AGENTS.md", self.name),
            ManagedFile(folder / "prompts/tieline.md", WholeFile(self.name, COMMAND), "prompt template /tieline"),
        ]

    def notes(self, options: InstallOptions) -> list[str]:
        notes: list[str] = []
        if options.project:
            notes.append("Pi loads the extension of a project once you trust the project (`/trust` in Pi).")
        if options.transport == "http":
            notes.append("Pi's agents have Tieline's tools this way, but are not woken: they fetch their messages.")
        return notes
