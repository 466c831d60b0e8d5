"""The secrets that configuration refers to, over REST: their names and who needs them, set and removed, never read."""

import asyncio
from typing import Annotated

import msgspec

from toolcrib.core.audit import AuditEntry
from toolcrib.core.offers import SecurityLevel
from toolcrib.core.view import View
from toolcrib.project.secrets import SecretView, secret_views
from toolcrib.server.answers import HttpAnswer, json_answer
from toolcrib.server.rest.about import About, RestResource
from toolcrib.server.visit import PageRequest
from toolcrib.stores.secrets import VALUE_MAX, SecretStore

SECRETS = RestResource(
    "secrets", "The secrets that configuration refers to as `${NAME}`; their values are never shown."
)
ONE = "/secrets/{name}"


class SecretList(View):
    """The secrets that are kept."""

    secrets: list[SecretView]


class SecretValue(msgspec.Struct, forbid_unknown_fields=True):
    """What to keep."""

    value: Annotated[str, msgspec.Meta(min_length=1, max_length=VALUE_MAX)]


@SECRETS.route(
    "GET", "/secrets", About("List the secrets", SecretList, "Names, places and who refers to them.", problems=(403,))
)
async def _list(visit: PageRequest) -> HttpAnswer:
    visit.need_operator(SecurityLevel.SYSTEM)
    return json_answer(SecretList(await asyncio.to_thread(_views, visit)))


@SECRETS.route(
    "PUT",
    ONE,
    About(
        "Keep a secret",
        detail="Servers that refer to it are started anew.",
        status=204,
        body=SecretValue,
        example={"value": "a-token-that-is-not-shown"},
        problems=(403, 415, 422),
    ),
)
async def _set(visit: PageRequest) -> HttpAnswer:
    visit.need_operator(SecurityLevel.SYSTEM)
    name, value = visit.params["name"], visit.json(SecretValue).value
    await visit.view.note(AuditEntry("secret", decision="set", details={"name": name}))
    await asyncio.to_thread(_store(visit).put, {name: value})
    return HttpAnswer(204)


@SECRETS.route("DELETE", ONE, About("Forget a secret", status=204, problems=(403, 404)))
async def _remove(visit: PageRequest) -> HttpAnswer:
    visit.need_operator(SecurityLevel.SYSTEM)
    name = visit.params["name"]
    await visit.view.note(AuditEntry("secret", decision="removed", details={"name": name}))
    await asyncio.to_thread(_store(visit).remove, name)
    return HttpAnswer(204)


def _store(visit: PageRequest) -> SecretStore:
    return SecretStore(visit.served.project.around.env)


def _views(visit: PageRequest) -> list[SecretView]:
    project = visit.served.project
    return secret_views(project.around, project.chosen)
