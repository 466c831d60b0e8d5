"""A serving process among others that serve the same."""

from toolcrib.doors.mcp.roaming import Roaming
from toolcrib.project import Project


async def open_roaming(project: Project) -> Roaming | None:
    """Go on with sessions of other replicas, and follow their edits, where there are any."""
    fleet = project.crib.fleet
    if fleet is None:
        return None
    fleet.on_config = project.reload
    roaming = Roaming(fleet.book, fleet.coordination, fleet.failed)
    await roaming.open()
    return roaming
