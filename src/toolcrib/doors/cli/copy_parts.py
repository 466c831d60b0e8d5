"""What of this machine ``db copy`` brings over, in the order it does."""

import time
from collections.abc import Sequence

from toolcrib.loading import Loaded
from toolcrib.onlookers import audit_path
from toolcrib.stores.paths import state_directory
from toolcrib.stores.postgres.copy_audit import AuditPart
from toolcrib.stores.postgres.copy_tables import lock_parts, task_parts, token_parts
from toolcrib.stores.postgres.copying import CopyPart
from toolcrib.stores.token_file import TOKENS_NAME
from toolcrib.stores.worklist import TASKS_NAME
from toolcrib.surroundings import Surroundings


def project_parts(loaded: Loaded) -> Sequence[CopyPart]:
    """What belongs to the project alone."""
    return [] if loaded.lock is None else lock_parts(loaded.lock)


def user_parts(loaded: Loaded, around: Surroundings) -> Sequence[CopyPart]:
    """What all projects of this user have in common."""
    state = state_directory(around.env)
    audit = AuditPart(audit_path(loaded.config, around))
    return [*token_parts(state / TOKENS_NAME, time.time), *task_parts(state / TASKS_NAME), audit]
