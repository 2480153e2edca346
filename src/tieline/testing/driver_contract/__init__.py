"""The suite that every driver passes. Subclass it and give it a `rig` fixture.

What an agent cannot do is in its driver's `features`: then the suite checks that it is refused. What merely cannot be
scripted for it is in its rig's `limits`: then the test is left out, by name.
"""

from .asks import AskContract
from .base import at_work_in, eventually
from .content import ContentContract
from .ends import EndContract
from .options import OptionContract
from .spending import SpendingContract

__all__ = ["DriverContract", "at_work_in", "eventually"]


class DriverContract(ContentContract, AskContract, EndContract, OptionContract, SpendingContract):
    """Everything, as one class."""
