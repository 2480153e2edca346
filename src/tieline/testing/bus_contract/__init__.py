"""The suite that every bus passes. Subclass it and give it a `url` fixture:

class TestMyBus(BusContract):
    @pytest.fixture
    def url(self): return "mybus://..."
"""

from .announcements import Announcements, Ends
from .deliveries import Deliveries
from .interleavings import Interleavings
from .reading import Reading
from .records import Records
from .tables import Tables

__all__ = ["BusContract"]


class BusContract(Records, Reading, Ends, Announcements, Deliveries, Tables, Interleavings):
    """Everything, as one class."""
