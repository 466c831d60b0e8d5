"""``stdio``: the protocol on stdout, everything else on stderr."""

import json
import signal
import subprocess

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def request(number, method, **params):
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, "_meta": META}}) + "\n"


LIST = request(1, "tools/list")


def test_a_client_is_answered_and_its_leaving_ends_it(tiny):
    """Two requests, two answers, end of input, exit code 0."""
    call = request(2, "tools/call", name="tiny__echo", arguments={"text": "hi"})

    result = tiny.run("stdio", "--alone", stdin=LIST + call)

    answers = {answer["id"]: answer["result"] for answer in map(json.loads, result.stdout.splitlines())}
    assert result.returncode == 0
    assert [tool["name"] for tool in answers[1]["tools"]][:2] == ["result_read", "tiny__echo"]
    assert answers[2]["content"] == [{"type": "text", "text": '{"text": "hi"}'}]


def test_requests_may_come_from_a_file_and_answers_go_to_one(tiny):
    """Not only pipes: a session can be replayed from a file."""
    asked, answered = tiny.home / "asked", tiny.home / "answered"
    asked.write_text(LIST)
    with asked.open() as source, answered.open("w") as target:
        process = tiny.start("stdio", "--alone", "--no-prefix", stdin=source, stdout=target, stderr=subprocess.PIPE)

    assert process.wait(150) == 0, process.stderr.read().decode()
    assert json.loads(answered.read_text())["result"]["tools"][0]["name"] == "echo"


def test_what_a_native_tool_prints_does_not_reach_the_protocol(toolcrib):
    """stdout carries JSON-RPC only, whatever a function prints."""
    (toolcrib.project / "chatty.py").write_text(
        "from toolcrib import tool\n\n@tool\ndef chat() -> str:\n    print('noise')\n    return 'done'\n"
    )
    toolcrib.config.write_text('native = ["chatty"]\n')
    toolcrib.env["PYTHONPATH"] = str(toolcrib.project)

    result = toolcrib.run("stdio", "--alone", stdin=request(1, "tools/call", name="chat", arguments={}))

    assert json.loads(result.stdout)["result"]["content"][0]["text"] == "done"


def test_nothing_that_is_printed_at_import_reaches_the_protocol(toolcrib):
    """Neither by Python, nor by a program it starts, nor by what writes to the descriptor: it all goes to stderr."""
    (toolcrib.project / "loud.py").write_text(
        "import os, subprocess, sys\n\nfrom toolcrib import tool\n\n"
        "print('from print')\n"
        "sys.stdout.write('left in the buffer')\n"
        "os.write(1, b'from the descriptor\\n')\n"
        "subprocess.run([sys.executable, '-c', 'print(\"from a program\")'], check=True)\n\n\n"
        "@tool\ndef quiet() -> str:\n    'Say it.'\n    return 'done'\n"
    )
    toolcrib.config.write_text('native = ["loud"]\n')
    toolcrib.env["PYTHONPATH"] = str(toolcrib.project)

    result = toolcrib.run("stdio", "--alone", stdin=request(1, "tools/call", name="quiet", arguments={}))

    assert [json.loads(line)["id"] for line in result.stdout.splitlines()] == [1]
    assert json.loads(result.stdout)["result"]["content"][0]["text"] == "done"
    for words in ("from print", "left in the buffer", "from the descriptor", "from a program"):
        assert words in result.stderr


def test_a_signal_ends_it_although_the_client_stays(tiny):
    """SIGTERM is an orderly end: exit code 0."""
    process = tiny.start("stdio", "--alone", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdin.write(LIST.encode())
    process.stdin.flush()
    process.stdout.readline()

    process.send_signal(signal.SIGTERM)

    assert process.wait(150) == 0, process.stderr.read().decode()


def test_a_broken_configuration_is_told_on_stderr(toolcrib):
    """A client that reads stdout is not confused by complaints."""
    toolcrib.config.write_text("oops =\n")

    result = toolcrib.run("stdio", "--alone", stdin=LIST)

    assert (result.returncode, result.stdout) == (1, "")
    assert f"{toolcrib.config}:1" in result.stderr
