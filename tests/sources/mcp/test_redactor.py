"""Secrets in what servers say."""

import base64
import html
import json
from urllib.parse import quote, quote_plus

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.core.errors import RemoteError
from toolcrib.sources.mcp import redactor
from toolcrib.sources.mcp.redactor import MASK, WITHHELD, Redactor, _in_dialects, _in_json, withheld

SECRET = 's3cr3t/+"&<key>\\ü'
PLAIN = "ghp_0123456789abcdefXYZ"

ENCODINGS = {
    "raw": str,
    "quoted": lambda text: quote(text, safe=""),
    "quoted but for slashes": quote,
    "quoted in a form": quote_plus,
    "quoted in small letters": lambda text: quote(text, safe="").lower().replace(text.lower(), text),
    "json": lambda text: json.dumps(text)[1:-1],
    "json without escapes of letters": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "json in json": lambda text: json.dumps(json.dumps(text))[1:-1],
    "json of PHP": lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    "html": html.escape,
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 one in": lambda text: base64.b64encode(b":" + text.encode() + b"!").decode(),
    "base64 two in": lambda text: base64.b64encode(b"u:" + text.encode() + b"?").decode(),
    "base64 for URLs": lambda text: base64.urlsafe_b64encode(b"user:" + text.encode()).decode(),
    "base64 in a URL": lambda text: quote(base64.b64encode(b"user:" + text.encode()).decode(), safe=""),
    "hexadecimal": lambda text: text.encode().hex(),
    "HEXADECIMAL": lambda text: text.encode().hex().upper(),
}


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("secret", [SECRET, PLAIN])
def test_a_secret_is_found_in_every_encoding_that_is_cheap_to_know(secret, encoding):
    """In a text, and in a JSON message that holds such a text; what is around it stays."""
    encoded = ENCODINGS[encoding](secret)
    message = {"result": {"content": [{"type": "text", "text": f"before {encoded} after"}]}, "id": 7}
    redactor = Redactor({secret})

    shown = redactor.text(f"before {encoded} after")
    sent = [redactor.clean(as_json(message)) for as_json in (msgspec.json.encode, lambda it: json.dumps(it).encode())]

    texts = [shown, *(msgspec.json.decode(each)["result"]["content"][0]["text"] for each in sent)]
    assert all(text.startswith("before ") and text.endswith(" after") and "***" in text for text in texts)
    assert not any(encoded in text for text in texts)


@pytest.mark.parametrize("escape", ["\\u%04x", "\\u%04X"])
def test_letters_that_json_need_not_escape_hide_nothing(escape):
    """A server that writes its key in escapes alone is understood, also within a text within a message."""
    escaped = "".join(escape % ord(char) for char in PLAIN)
    twice = json.dumps({"text": f'"{escaped}"'}).encode()

    cleaned = [Redactor({PLAIN}).clean(message) for message in (b'{"text":"' + escaped.encode() + b'"}', twice)]

    assert [msgspec.json.decode(message)["text"] for message in cleaned] == ["***", '"***"']


@given(st.binary(max_size=200) | st.text(max_size=80).map(lambda text: json.dumps({"a": text}).encode()))
def test_what_holds_no_secret_stays_as_it_is_to_the_byte(message):
    """Whatever it is: nothing is decoded and encoded again."""
    assert Redactor({PLAIN}).clean(message) is message
    assert Redactor().clean(message) is message


@given(st.sets(st.text("ab", min_size=1, max_size=4), max_size=4), st.lists(st.text("c-", max_size=6), max_size=4))
def test_no_part_of_a_secret_is_left_when_one_begins_another(secrets, words):
    """Whatever the order they are known in: the longest is looked for first."""
    text = "-".join([*words, *secrets])

    hidden = Redactor(secrets).text(text)

    assert not any(secret in hidden for secret in secrets)


@given(st.text(st.characters(codec="utf-8"), min_size=8, max_size=40), st.binary(max_size=5), st.binary(max_size=5))
def test_any_secret_is_found_wherever_it_begins_in_base64(secret, before, after):
    """The pattern is made of any characters, and its neighbours do not matter."""
    encoded = base64.b64encode(before + secret.encode() + after).decode()

    shown = Redactor({secret}).text(encoded)

    assert "***" in shown
    assert len(shown.replace("***", "")) <= len(encoded) - (8 * len(secret.encode()) // 6 - 1)


@pytest.mark.parametrize(
    "message", [b'{"a":"' + PLAIN.encode() + b'"', b"[" * 100_000 + PLAIN.encode(), b"\xff\xfe %a"]
)
def test_a_message_that_cannot_be_read_is_cleaned_as_a_text(message):
    """Cut short, nested beyond all bounds, or no UTF-8."""
    assert PLAIN.encode() not in Redactor({PLAIN}).clean(message.replace(b"%a", PLAIN.encode()))


def test_a_secret_of_digits_is_no_number_either():
    """Other numbers stay numbers, and the message stays JSON."""
    cleaned = Redactor({"1234567890"}).clean(b'{"id":1,"result":{"n":1234567890,"m":[12345,true,1.5]}}')

    assert msgspec.json.decode(cleaned) == {"id": 1, "result": {"n": "***", "m": [12345, True, 1.5]}}


def test_only_whole_numbers_are_read_as_digits():
    """A word that is a secret by accident takes no value away that is no text."""
    kept = {"is": True, "nothing": None, "part": 1234.5}

    assert Redactor({"True", "None", "1234.5"}).value(kept) == kept


def test_a_value_nested_too_deeply_to_be_searched_is_withheld():
    """Better nothing than a secret."""
    value: object = PLAIN
    for _ in range(100_000):
        value = [value]

    assert Redactor({PLAIN}).value(value) == "***"


@pytest.mark.parametrize("cut", range(4, len(PLAIN) + 1))
def test_a_secret_that_is_cut_off_with_its_text_is_taken_out_as_far_as_it_goes(cut):
    """From four characters on: nobody can say of fewer what they begin."""
    assert Redactor({PLAIN}).cut_text(f"key={PLAIN[:cut]}") == "key=***"
    assert Redactor({PLAIN}).cut_text("key=gh") == "key=gh"


def test_secrets_can_be_added_later():
    """What was compiled before does not stay."""
    redactor = Redactor({PLAIN})
    before = redactor.text("another-secret")

    redactor.add({"another-secret"})

    assert (before, redactor.text(f"another-secret {PLAIN}")) == ("another-secret", "*** ***")


def test_an_error_keeps_its_kind_and_loses_its_secrets():
    """Message, hint, details, data and what Python prints."""
    error = RemoteError(-1, f"key {PLAIN}", data={PLAIN: [PLAIN, 1]})
    error.hint, error.details = f"not {PLAIN}", {"key": PLAIN}

    Redactor({PLAIN}).error(error)

    assert PLAIN not in f"{error} {error!r} {error.hint} {error.details} {error.data}"
    assert (error.rpc_code, error.data) == (-1, {"***": ["***", 1]})


def test_half_a_surrogate_pair_does_not_stop_the_search():
    """Such text comes from file names and careless programs."""
    assert Redactor({PLAIN}).text(f"\ud800 {PLAIN}") == "\ud800 ***"


def large(text: str, **more: object) -> bytes:
    """An answer of some 200 KB that holds a text in its middle."""
    content = [{"type": "text", "text": "before " * 15_000 + text + " after" * 15_000}]
    return json.dumps({"jsonrpc": "2.0", "id": 7, "result": {"content": content, **more}}).encode()


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_large_message_is_cleaned_where_the_secret_is_and_stays_as_it_is_elsewhere(encoding):
    """In every encoding, also across the pieces it is looked at in; and it is still JSON."""
    encoded = ENCODINGS[encoding](PLAIN)
    for shift in (0, 1, 2000, 4090):
        cleaned = Redactor({PLAIN}).clean(large("." * shift + f"[{encoded}]"))

        text = msgspec.json.decode(cleaned)["result"]["content"][0]["text"]
        assert encoded not in text
        assert text.startswith("before " * 15_000 + "." * shift + "[")
        assert text.endswith("]" + " after" * 15_000)
        assert "***" in text


def test_a_number_in_a_large_message_stays_a_number():
    """Three asterisks would make it no JSON any more."""
    cleaned = Redactor({"1234567890"}).clean(large("words", structuredContent={"n": 1234567890, "m": [51234567890]}))

    assert msgspec.json.decode(cleaned)["result"]["structuredContent"] == {"n": 1, "m": [51]}


@pytest.mark.parametrize(
    "text", ["".join(f"\\u{ord(char):04x}" for char in PLAIN), (PLAIN + " ") * 200_000], ids=["hidden", "everywhere"]
)
def test_a_large_message_that_cannot_be_cleaned_is_withheld(text):
    """Whoever asked gets an error under the same id; a message nobody waits for is one that nobody heeds."""
    answer = b'{"jsonrpc":"2.0","id":7,"result":{"a":"' + text.encode() + b" " * 70_000 + b'"}}'
    notice = answer.replace(b'"id":7,"result"', b'"method":"notifications/message","params"')

    cleaned, noted = (msgspec.json.decode(Redactor({PLAIN}).clean(message)) for message in (answer, notice))

    assert (cleaned["id"], cleaned["error"]["code"], "withheld" in cleaned["error"]["message"]) == (7, -32603, True)
    assert noted == {"jsonrpc": "2.0", "method": "notifications/withheld"}


def test_escapes_in_a_large_message_that_hide_nothing_stay_as_they_are():
    """A file full of them is a file like any other."""
    message = large(r"\u0041\u0042 " * 5000)

    assert msgspec.json.decode(Redactor({PLAIN}).clean(message)) == msgspec.json.decode(message)


@pytest.mark.parametrize(
    ("message", "answer"), [(b"no JSON", None), (b'{"method":"x"}', None), (b'{"id":7,"result":{}}', 7)]
)
def test_what_is_withheld_is_an_error_for_whoever_waits_and_a_notification_else(message, answer):
    said = msgspec.json.decode(withheld(message))

    assert said["jsonrpc"] == "2.0"
    if answer is None:
        assert said == {"jsonrpc": "2.0", "method": "notifications/withheld"}
    else:
        assert (said["id"], said["error"]["message"]) == (answer, WITHHELD)


@pytest.mark.parametrize("before", [0, 1, 2])
@pytest.mark.parametrize("size", [9, 10, 11])
def test_all_of_a_secret_that_shows_in_base64_is_taken_out(before, size):
    """Every character that is made of the secret alone, and none that its neighbours share."""
    secret = "Zk3!xQ9-w#v"[:size]
    around = [base64.b64encode(edge * before + secret.encode() + edge * 3).decode() for edge in (b"\0", b"\xff")]

    shown = [Redactor({secret}).text(encoded) for encoded in around]

    for encoded, text in zip(around, shown, strict=True):
        first = -(-8 * before // 6)
        assert text == encoded[:first] + "***" + encoded[8 * (before + size) // 6 :]


@pytest.mark.parametrize("written", [repr, lambda secret: f"'{html.escape(secret)}'"])
def test_all_of_a_secret_goes_however_it_is_written(written):
    secret = "pa\nss<word>&1"

    assert Redactor({secret}).text(written(secret)) == "'***'"


def test_escapes_that_hide_nothing_stay_as_they_are_in_a_text():
    """What somebody wrote is shown as it was written."""
    assert Redactor({PLAIN}).text(r"\u0041\u0042 and so on") == r"\u0041\u0042 and so on"


def test_each_way_of_writing_a_secret_is_whole_from_its_first_character_to_its_last():
    secret = '"é</"'

    assert list(_in_json(secret)) == ['\\"\\u00e9</\\"', '\\"é</\\"']
    assert list(_in_dialects(secret))[:2] == ['\\"\\u00e9<\\/\\"', '\\"é\\u003c/\\"']


def test_a_secret_as_python_shows_it_is_taken_out_whole():
    """With its tabs and quotation marks written as letters."""
    secret = "\ttop\t'\"secret\t"
    redactor = Redactor(frozenset({secret}))

    assert redactor.text(f"failed: {secret!r}") == "failed: '***'"


@pytest.mark.parametrize(("spare", "is_cleaned"), [(0, True), (-1, False)])
def test_a_large_message_is_cleaned_up_to_a_certain_amount_of_work(monkeypatch, spare, is_cleaned):
    """As much as is searched, once for each way of writing a secret."""
    found, message = Redactor({PLAIN}), large(f"before {PLAIN} after")
    assert PLAIN not in found.text(PLAIN)
    work = sum(end - start for start, end in found._regions(message.decode())) * len(found._forms)
    monkeypatch.setattr(redactor, "WORK_MAX", work + spare)

    assert (found.clean(message) != withheld(message)) is is_cleaned


@pytest.mark.parametrize("before", ["", "u", "u:"])
def test_base64_for_urls_is_found_where_it_differs(before):
    """Wherever in a group of three bytes the secret begins."""
    secret = "???>>>~~~???>>>~~~"
    encoded = base64.urlsafe_b64encode(f"{before}{secret}".encode()).decode()

    assert {"-", "_"} & set(encoded)
    assert encoded not in (shown := Redactor({secret}).text(f"see {encoded} there"))
    assert MASK in shown


def test_the_shortest_beginning_of_a_secret_that_counts_is_cut_off():
    """At the very end of a text that was cut."""
    assert [Redactor({PLAIN}).cut_text(f"key={PLAIN[:length]}") for length in (3, 4)] == ["key=ghp", "key=***"]
