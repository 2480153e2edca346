"""The suite that every bus passes. Subclass it and give it a `url` fixture:

class TestMyBus(BusContract):
    @pytest.fixture
    def url(self): return "mybus://..."
"""

from .announcements import AnnouncementContract, Ends
from .interleavings import InterleavingContract
from .publishing import PublishingContract
from .reading import ReadContract
from .tables import TableContract

__all__ = ["BusContract"]


class BusContract(PublishingContract, ReadContract, Ends, AnnouncementContract, TableContract, InterleavingContract):
    """Everything, as one class."""
