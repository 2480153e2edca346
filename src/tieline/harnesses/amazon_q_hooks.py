"""The hooks of Amazon Q: those of Kiro, which came of it, but their input names no session."""

from .kiro_hooks import KiroHooks


class AmazonQHooks(KiroHooks):
    session_processes = ("qchat", "q")
