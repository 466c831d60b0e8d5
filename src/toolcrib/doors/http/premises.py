"""What the REST door and the page look after: one project, and what people may do to it from afar."""

from dataclasses import dataclass

from toolcrib.bulletin import Bulletin
from toolcrib.crib import Crib
from toolcrib.doors.http.sign_in import SignIns
from toolcrib.project import Project
from toolcrib.sessions import Sessions
from toolcrib.stores.tokens import TokenBook


@dataclass(frozen=True, slots=True)
class Premises:
    """Given to every route when it is made."""

    project: Project
    sign_ins: SignIns
    url: str
    """Where MCP is served."""
    started_s: float
    """When, by ``core.clocks.elapsed``."""
    edit_commands: bool = False
    """Whether servers that run a command may be added and changed over HTTP."""
    needs_token: bool = False
    """Whether MCP clients have to send one."""
    tokens: TokenBook | None = None
    """Those that were given to others; without it, the file of this user."""
    bulletin: Bulletin | None = None
    """The news, for those who look on."""
    sessions: Sessions | None = None
    """Who works here and in other projects; without it there are no addresses for that."""

    @property
    def crib(self) -> Crib:
        """What is served."""
        return self.project.crib
