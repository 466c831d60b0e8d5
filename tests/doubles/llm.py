"""A model provider on loopback that speaks the real wire formats and says what it is told to.

Anthropic ``/messages``, OpenAI ``/chat/completions`` and ``/responses``, Ollama ``/api/chat``, Gemini
``:generateContent``; whole or streamed, as it is asked. Each request takes the next step of the script, and is kept.
"""

import itertools
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True)
class Step:
    """One answer of the model: words and tool calls; ``cut`` ends it in the middle of the last call's arguments."""

    text: str = ""
    calls: tuple[tuple[str, Any], ...] = ()
    cut: bool = False
    status: int = 200
    body: Any = None
    """Sent as it is, with the status, instead of an answer."""
    headers: dict[str, str] = field(default_factory=dict)
    broken_after: int | None = None
    """How many events of the stream are sent before it ends."""
    is_lost: bool = True
    """Whether the connection ends with it."""

    def written(self, position: int) -> str:
        arguments = self.calls[position][1]
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        return text[: len(text) // 2] if self.cut and position == len(self.calls) - 1 else text


class LlmDouble:
    """The provider, in a thread of its own."""

    def __init__(self, *steps: Step) -> None:
        self.asked: list[dict[str, Any]] = []
        """The bodies of the requests."""
        self.heads: list[dict[str, str]] = []
        self.paths: list[str] = []
        self._steps = iter(steps)
        self._lock = threading.Lock()
        double = self

        class Handler(_Handler):
            llm = double

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def take(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> Step:
        with self._lock:
            self.paths.append(path)
            self.heads.append(headers)
            self.asked.append(body)
            return next(self._steps, Step("(the script is over)"))

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    llm: LlmDouble
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._whole({"object": "list", "data": [], "models": []})

    def do_POST(self) -> None:
        body = json.loads(self._read())
        path = self.path.split("?")[0]
        step = self.llm.take(path, {key.lower(): value for key, value in self.headers.items()}, body)
        if step.body is not None or step.status != 200:
            self._whole(step.body or {"error": {"message": "no"}}, step.status, step.headers)
            return
        way = next(way for end, way in _WAYS.items() if path.endswith(end) or end in path)
        is_streamed = "stream" in path if "generateContent" in path.lower() else body.get("stream", way is ollama)
        document, events = way(step, body.get("model", "m"))
        if is_streamed:
            self._stream(events, step, is_lines=way is ollama)
        else:
            self._whole(document)

    def _read(self) -> bytes:
        if "chunked" not in self.headers.get("transfer-encoding", ""):
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        raw = b""
        while size := int(self.rfile.readline(), 16):
            raw += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return raw

    def _whole(self, document: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        raw = json.dumps(document).encode()
        self.send_response(status)
        for key, value in {"content-type": "application/json", **(headers or {})}.items():
            self.send_header(key, value)
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def _stream(self, events: list[dict[str, Any]], step: Step, *, is_lines: bool) -> None:
        self.send_response(200)
        self.send_header("content-type", "application/x-ndjson" if is_lines else "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for event in events[: step.broken_after]:
            name = f"event: {event['type']}\n" if "type" in event else ""
            text = json.dumps(event) + "\n" if is_lines else f"{name}data: {json.dumps(event)}\n\n"
            self._chunk(text.encode())
        if step.broken_after is not None and step.is_lost:
            self.close_connection = True
            return
        if not is_lines and "choices" in events[0]:
            self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _chunk(self, raw: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(raw), raw))
        self.wfile.flush()


Answer = tuple[dict[str, Any], list[dict[str, Any]]]
"""The answer as a whole, and as events."""


def anthropic(step: Step, model: str) -> Answer:
    words = [{"type": "text", "text": step.text}] if step.text else []
    calls = [
        {"type": "tool_use", "id": f"toolu_{at}", "name": name, "input": arguments}
        for at, (name, arguments) in enumerate(step.calls)
    ]
    content = [*words, *calls]
    stop = "max_tokens" if step.cut else "tool_use" if calls else "end_turn"
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "stop_sequence": None}
    usage = {"input_tokens": 11, "output_tokens": 7}
    events = [{"type": "message_start", "message": {**message, "content": [], "stop_reason": None, "usage": usage}}]
    for at, block in enumerate(content):
        if block["type"] == "text":
            events.append({"type": "content_block_start", "index": at, "content_block": {**block, "text": ""}})
            deltas = [{"type": "text_delta", "text": piece} for piece in _halves(step.text)]
        else:
            events.append({"type": "content_block_start", "index": at, "content_block": {**block, "input": {}}})
            written = step.written(at - len(words))
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in _halves(written)]
        events += [{"type": "content_block_delta", "index": at, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": at})
    ended = {"stop_reason": stop, "stop_sequence": None}
    events += [{"type": "message_delta", "delta": ended, "usage": {"output_tokens": 7}}, {"type": "message_stop"}]
    return {**message, "content": content, "stop_reason": stop, "usage": usage}, events


def chat(step: Step, model: str) -> Answer:
    calls = [
        {"id": f"call_{at}", "type": "function", "function": {"name": name, "arguments": step.written(at)}}
        for at, (name, _) in enumerate(step.calls)
    ]
    stop = "length" if step.cut else "tool_calls" if calls else "stop"
    base = {"id": "cc_1", "created": 1_700_000_000, "model": model}
    usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    message = {"role": "assistant", "content": step.text or None, **({"tool_calls": calls} if calls else {})}
    choice = {"index": 0, "message": message, "finish_reason": stop, "logprobs": None}
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": piece} for piece in _halves(step.text)]
    for at, call in enumerate(calls):
        function = call["function"]
        head = {"index": at, "id": call["id"], "type": "function", "function": {**function, "arguments": ""}}
        deltas.append({"tool_calls": [head]})
        deltas += [
            {"tool_calls": [{"index": at, "function": {"arguments": piece}}]}
            for piece in _halves(function["arguments"])
        ]
    chunk = {**base, "object": "chat.completion.chunk"}
    events = [{**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    events.append({**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": stop}]})
    events.append({**chunk, "choices": [], "usage": usage})
    return {**base, "object": "chat.completion", "choices": [choice], "usage": usage}, events


def responses(step: Step, model: str) -> Answer:
    items: list[dict[str, Any]] = []
    if step.text:
        said = {"type": "output_text", "text": step.text, "annotations": [], "logprobs": []}
        items.append({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [said]})
    items += [
        {
            "type": "function_call",
            "id": f"fc_{at}",
            "call_id": f"call_{at}",
            "name": name,
            "arguments": step.written(at),
            "status": "completed",
        }
        for at, (name, _) in enumerate(step.calls)
    ]
    details = {"input_tokens_details": {"cached_tokens": 3}, "output_tokens_details": {"reasoning_tokens": 0}}
    response = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "incomplete" if step.cut else "completed",
        "model": model,
        "output": items,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if step.cut else None,
        "instructions": None,
        "metadata": {},
        "temperature": 1,
        "top_p": 1,
        "usage": {"input_tokens": 11, "output_tokens": 7, "total_tokens": 18, **details},
    }
    numbers = itertools.count()

    def event(kind: str, **fields: Any) -> dict[str, Any]:
        return {"type": kind, "sequence_number": next(numbers), **fields}

    events = [event("response.created", response={**response, "status": "in_progress", "output": []})]
    for at, item in enumerate(items):
        place = {"item_id": item["id"], "output_index": at}
        if item["type"] == "function_call":
            opened = {**item, "arguments": "", "status": "in_progress"}
            events.append(event("response.output_item.added", output_index=at, item=opened))
            kind = "response.function_call_arguments"
            events += [event(f"{kind}.delta", **place, delta=piece) for piece in _halves(item["arguments"])]
            events.append(event(f"{kind}.done", **place, arguments=item["arguments"], name=item["name"]))
        else:
            opened = {**item, "content": [], "status": "in_progress"}
            events.append(event("response.output_item.added", output_index=at, item=opened))
            part, place = item["content"][0], {**place, "content_index": 0}
            events.append(event("response.content_part.added", **place, part={**part, "text": ""}))
            events += [
                event("response.output_text.delta", **place, delta=piece, logprobs=[]) for piece in _halves(step.text)
            ]
            events.append(event("response.output_text.done", **place, text=step.text, logprobs=[]))
            events.append(event("response.content_part.done", **place, part=part))
        events.append(event("response.output_item.done", output_index=at, item=item))
    events.append(event("response.incomplete" if step.cut else "response.completed", response=response))
    return response, events


def ollama(step: Step, model: str) -> Answer:
    calls = [{"function": {"name": name, "arguments": arguments}} for name, arguments in step.calls]
    base = {"model": model, "created_at": "2026-01-01T00:00:00Z"}
    message = {"role": "assistant", "content": step.text, **({"tool_calls": calls} if calls else {})}
    done = {"done": True, "done_reason": "length" if step.cut else "stop", "prompt_eval_count": 11, "eval_count": 7}
    pieces = [{"role": "assistant", "content": piece} for piece in _halves(step.text)]
    if calls:
        pieces.append({"role": "assistant", "content": "", "tool_calls": calls})
    events = [{**base, "message": piece, "done": False} for piece in pieces]
    events.append({**base, "message": {"role": "assistant", "content": ""}, **done})
    return {**base, "message": message, **done}, events


def gemini(step: Step, model: str) -> Answer:
    parts: list[dict[str, Any]] = [{"text": step.text}] if step.text else []
    parts += [
        {"functionCall": {"name": name, "args": arguments, "id": f"fc_{at}"}}
        for at, (name, arguments) in enumerate(step.calls)
    ]
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 11, "candidatesTokenCount": 7, "totalTokenCount": 18}
    document = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": model}
    return document, [document]


_WAYS = {
    "/messages": anthropic,
    "/chat/completions": chat,
    "/responses": responses,
    "/api/chat": ollama,
    ":generateContent": gemini,
    ":streamGenerateContent": gemini,
}


def _halves(text: str) -> list[str]:
    middle = len(text) // 2
    return [piece for piece in (text[:middle], text[middle:]) if piece]
