"""What is under way between a client on stdin and the toolcrib it joined, so that another one can go on with it.

Decides, and does no I/O. Only the standard library, and little of it: the pipe must be there before it is missed.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

CONTROL = b"\x01"
"""Begins a word between the pipe and the toolcrib it joined; no JSON begins with it."""
LISTEN = "subscriptions/listen"
_OURS = "toolcrib-join-"
_HEAD = re.compile(rb'\{"jsonrpc":"2\.0",(?:"id":("(?:[^"\\]|\\.)*"|-?\d+|null),"(result|error|method)"|"method":)')
"""How toolcrib's own messages begin: the rest of a large result need not be looked at."""

Message = dict[str, Any]


class OpenRequest:
    """A request of the client that was not answered yet."""

    def __init__(self, message: Message, line: bytes) -> None:
        self.id, self.method, self.line = message["id"], str(message["method"]), line
        self.is_sent = False
        """Whether the toolcrib of the moment, or one before it, may have got it."""


class Conversation:
    """What a client said that still matters, and what it waits for."""

    def __init__(self) -> None:
        self.asked: dict[str, OpenRequest] = {}
        self._questions: dict[str, Any] = {}
        """Ids of what the client was asked and has not answered."""
        self._greeting: Message | None = None
        self._is_greeted = False
        self._initialized: bytes = b""
        self._settings: dict[str, Message] = {}
        """What has to be said again to another toolcrib: the log level, and each subscription."""
        self._swallowed: set[str] = set()
        self._count = 0

    @property
    def is_settled(self) -> bool:
        """Whether the client waits for nothing but news."""
        return all(asked.method == LISTEN for asked in self.asked.values())

    def hear_client(self, line: bytes) -> tuple[bytes, list[OpenRequest]]:
        """Take a line of the client; as it is sent on, and the requests in it."""
        if line.startswith(CONTROL):
            return b" " + line, []  # it is no JSON anyway, and no word of ours
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):  # whoever gets it says what is wrong with it
            return line, []
        found = [
            asked for message in (said if isinstance(said, list) else [said]) for asked in self._note(message, line)
        ]
        return line, found

    def _note(self, message: object, line: bytes) -> Iterator[OpenRequest]:
        if not isinstance(message, dict):
            return
        method = message.get("method")
        if method is None:
            self._questions.pop(_key(message.get("id")), None)
        elif "id" not in message:
            self._notice(message, line)
        elif _key(message["id"]) not in self.asked:  # an id that is in use is refused, and the first one goes on
            if method == "initialize":
                self._greeting, self._is_greeted = message, False
            asked = self.asked[_key(message["id"])] = OpenRequest(
                message, line if not line.startswith(b"[") else _line(message)
            )
            yield asked

    def _notice(self, message: Message, line: bytes) -> None:
        params = message.get("params")
        if message["method"] == "notifications/initialized":
            self._initialized = line
        elif message["method"] == "notifications/cancelled" and isinstance(params, dict):
            self.asked.pop(_key(params.get("requestId")), None)

    def hear_server(self, line: bytes) -> bool:
        """Take a line for the client; whether it gets it."""
        head = _HEAD.match(line)
        if head is None:
            return self._take(json.loads(line))
        if head[1] is None:
            return True
        return self._take({"id": json.loads(head[1]), head[2].decode(): True})

    def _take(self, message: Message) -> bool:
        key = _key(message.get("id"))
        if "method" in message:
            if "id" in message:
                self._questions[key] = message["id"]
            return True
        if key in self._swallowed:
            self._swallowed.discard(key)
            return False
        asked = self.asked.pop(key, None)
        if asked is not None and "result" in message:
            self._settle(asked)
        return True

    def _settle(self, asked: OpenRequest) -> None:
        """Keep what another toolcrib has to be told again."""
        if asked.method == "initialize":
            self._is_greeted = True
        elif asked.method == "logging/setLevel":
            self._settings["level"] = json.loads(asked.line)
        elif asked.method in ("resources/subscribe", "resources/unsubscribe"):
            message = json.loads(asked.line)
            uri = str(message["params"]["uri"])
            self._settings.pop(uri, None)
            if asked.method == "resources/subscribe":
                self._settings[uri] = message

    def give_up_questions(self) -> list[bytes]:
        """Call off what the client was asked by a toolcrib that is gone."""
        open_ids, self._questions = self._questions.values(), {}
        reason = "The toolcrib that asked has ended."
        return [
            _line(
                {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": one, "reason": reason}}
            )
            for one in open_ids
        ]

    def replay(self) -> list[bytes]:
        """What another toolcrib has to be told so that it can go on; requests that may have been run are named."""
        self._swallowed.clear()
        lines = []
        if self._is_greeted and self._greeting is not None:
            lines += [self._as_ours(self._greeting), *filter(None, [self._initialized])]
            lines += [self._as_ours(message) for message in self._settings.values()]
        repeated = [asked.id for asked in self.asked.values() if asked.is_sent]
        if repeated:
            lines.append(CONTROL + json.dumps({"repeated": repeated}).encode())
        for asked in self.asked.values():
            asked.is_sent = True
            lines.append(asked.line)
        return lines

    def _as_ours(self, message: Message) -> bytes:
        """A request of the client under an id of ours, whose answer it does not get: it had one."""
        self._count += 1
        own = f"{_OURS}{self._count}"
        self._swallowed.add(_key(own))
        return _line({**message, "id": own})

    def fail_all(self, reason: str) -> list[bytes]:
        """The answers to everything that is under way when nobody can go on with it."""
        error = {"code": -32603, "message": reason}
        failed = [_line({"jsonrpc": "2.0", "id": asked.id, "error": error}) for asked in self.asked.values()]
        self.asked.clear()
        return failed


def _key(request_id: object) -> str:
    """An id as the key of a table: 1 and "1" are two."""
    return json.dumps(request_id)


def _line(message: Message) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode()
