"""The suite that every driver passes. Subclass it and give it a `rig` fixture.

What an agent cannot do is in its driver's `features`: then the suite checks that it is refused. What merely cannot be
scripted for it is in its rig's `limits`: then the test is left out, by name.
"""

from .asks import Asks
from .base import at_work_in, eventually
from .content import Content
from .ends import Ends
from .options import Options
from .spending import Spending

__all__ = ["DriverContract", "at_work_in", "eventually"]


class DriverContract(Content, Asks, Ends, Options, Spending):
    """Everything, as one class."""
