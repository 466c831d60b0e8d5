"""What the page says after a form was sent: a word in the address stands for a sentence, so nobody can forge one."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from toolcrib.doors.http.answers import Answer, see_other

SENTENCES = {
    "accepted": "{name} is accepted as it is now.",
    "added": "Server {name} was added.",
    "allowed": "Allowed. The call goes on.",
    "asked": "Server {name} was asked for its tools.",
    "changed": "Server {name} was changed.",
    "disabled": "Server {name} is switched off.",
    "enabled": "Server {name} is switched on.",
    "ended": "The call of {name} was ended.",
    "forgotten": "Forgotten. The next call of {name} asks again.",
    "imported": "The servers you chose were taken over.",
    "policy": "The policy of {name} is set.",
    "refused": "Refused. The caller was told.",
    "removed": "Server {name} was removed.",
    "restarted": "Server {name} was restarted.",
    "revoked": "The token {name} was revoked.",
    "saved": "Saved.",
    "signed_out": "That browser is signed out.",
}
FAILED = {
    "policy_overruled": "The policy is written down, but another rule that fits {name} is more careful and counts.",
    "still_failing": "Server {name} could not be asked for its tools.",
}


@dataclass(frozen=True, slots=True)
class Notice:
    """A sentence, and whether it is good news."""

    text: str
    is_good: bool = True


def notice_of(query: Mapping[str, str]) -> Notice | None:
    """The sentence that an address asks for, if it is one of ours."""
    key, name = query.get("done", ""), query.get("name", "")[:80]
    if sentence := SENTENCES.get(key):
        return Notice(sentence.format(name=name))
    if sentence := FAILED.get(key):
        return Notice(sentence.format(name=name), is_good=False)
    return None


def go_on(place: str, done: str, name: str = "") -> Answer:
    """Send a browser on after a form, with what to say there."""
    return see_other(f"{place}?{urlencode({'done': done} | ({'name': name} if name else {}))}")
