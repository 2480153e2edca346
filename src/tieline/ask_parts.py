"""An ask as people see it: the one list of labelled texts that every surface displays, whole or not with an Allow."""

from typing import Literal

from msgspec import Struct


class Part(Struct, frozen=True, omit_defaults=True):
    """One labelled text. It is kept as it is; whoever displays it makes its invisible characters visible."""

    label: str
    text: str
    form: Literal["text", "code", "diff"] = "text"
