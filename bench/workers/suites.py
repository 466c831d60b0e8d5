"""``suites.py DIR``: runs the public JSON Schema and JSON parsing suites through toolcrib's own code.

Below DIR are ``json-schema/tests/draft2020-12`` and ``json-parsing/test_parsing``. Prints one JSON object: how many
cases there are, and one line about each that was not decided rightly.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from hostile_schemas import hostile_schemas

from toolcrib.config.jsonc import read_jsonc
from toolcrib.core.errors import ConfigError, ToolcribError
from toolcrib.core.framing import LineFramer
from toolcrib.core.requests import Result
from toolcrib.schema.check import compile_check
from toolcrib.schema.sanitise import sanitise_tool
from toolcrib.wire.jsonrpc import RpcError, decode_inbound, decode_outbound

HERE = Path(__file__).resolve().parent
SERVED = "http://localhost:1234/"  # where the suite says its further documents are
OURS_TO_ALLOW = {  # comments and trailing commas, in files that people write
    "n_array_extra_comma.json",
    "n_array_number_and_comma.json",
    "n_object_trailing_comma.json",
    "n_object_trailing_comment.json",
    "n_object_trailing_comment_slash_open.json",
    "n_structure_object_with_comment.json",
}

Decide = Callable[[bytes], bool]


def further_documents(suite: Path) -> dict[str, Any]:
    """The documents the suite refers to: its own folder, or stand-ins where a copy comes without it."""
    served = suite / "remotes"
    if not served.is_dir():
        stand_ins = json.loads((HERE / "suite_documents.json").read_text())
        return {SERVED + name: document for name, document in stand_ins.items()}
    return {SERVED + str(path.relative_to(served)): json.loads(path.read_text()) for path in served.rglob("*.json")}


def schema_cases(folder: Path, known: dict[str, Any], formats: bool | None) -> Iterator[str | None]:
    """For every case nothing if the verdict is right, else what is wrong."""
    for path in sorted(folder.glob("*.json")):
        for group in json.loads(path.read_text()):
            check = compile_check(group["schema"], known, formats=formats)
            for case in group["tests"]:
                where = f"{path.stem}: {group['description']}: {case['description']}"
                if check.gap:
                    yield f"refused: {where}: {check.gap}"
                elif check.accepts(case["data"]) is not case["valid"]:
                    yield f"wrong: {where}"
                elif (check.problems(case["data"]) == []) is not case["valid"]:
                    yield f"wrong: {where}: explained otherwise than decided"
                else:
                    yield None


def as_request_body(data: bytes) -> bool:
    decode_inbound(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":%b}}' % data)
    return True


def as_stdio_line(data: bytes) -> bool:
    """A line has no line breaks in it; outside of strings a space is as good."""
    if is_json(data):
        data = data.replace(b"\n", b" ")
    lines = LineFramer().feed(b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":%b}}\n' % data)
    return all(decode_inbound(line) for line in lines)


def is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def as_server_result(data: bytes) -> bool:
    answer = decode_outbound(b'{"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":%b}}' % data)
    assert isinstance(answer.result, msgspec.Raw)
    return "structuredContent" in Result(raw=bytes(answer.result)).mcp


def as_config_file(data: bytes) -> bool:
    read_jsonc(data.decode(), "the file")
    return True


def parsing_cases(folder: Path) -> Iterator[str | None]:
    for decide in (as_request_body, as_stdio_line, as_server_result, as_config_file):
        for path in sorted(folder.glob("*.json")):
            allowed = decide is as_config_file and path.name in OURS_TO_ALLOW
            outcome = decision(decide, path.read_bytes())
            expected = {"y": {"accepted"}, "n": {"accepted" if allowed else "refused"}, "i": {"accepted", "refused"}}
            yield None if outcome in expected[path.name[0]] else f"{decide.__name__}: {path.name}: {outcome}"


def decision(decide: Decide, data: bytes) -> str:
    try:
        return "accepted" if decide(data) else "refused"
    except (RpcError, ConfigError, msgspec.DecodeError, UnicodeDecodeError):
        return "refused"
    except Exception as error:  # what the suite is looking for
        return f"{type(error).__name__}: {str(error)[:80]}"


def hostile_cases() -> dict[str, float]:
    """CPU milliseconds from a foreign definition to a verdict on a value, at best of three."""
    return {name: min(cpu_ms(schema, value) for _ in range(3)) for name, (schema, value) in hostile_schemas().items()}


def cpu_ms(schema: Any, value: Any) -> float:
    began = time.process_time()
    try:
        shown, _ = sanitise_tool({"name": "t", "inputSchema": {"type": "object"}, "outputSchema": schema})
        check = compile_check(shown["outputSchema"])
        check.problems(value)
    except ToolcribError:
        pass
    return (time.process_time() - began) * 1e3


def main(data: Path) -> dict[str, Any]:
    suite = data / "json-schema"
    known = further_documents(suite)
    draft = suite / "tests" / "draft2020-12"
    return {
        "required": [*schema_cases(draft, known, None)],
        "format": [*schema_cases(draft / "optional" / "format", known, True)],
        "parsing": [*parsing_cases(data / "json-parsing" / "test_parsing")],
        "hostile_ms": hostile_cases(),
    }


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
