"""What somebody new asks about toolcrib: its own documentation answers, and says so where it does not."""

import re

import pytest

from toolcrib.config.sections import KbConfig
from toolcrib.crib.library import make_library
from toolcrib.knowledge.answer import NOTHING, Answerer
from toolcrib.knowledge.retrieve import Search
from toolcrib.stores.paths import Environment

ANSWERED = [
    ("How do I add a server?", "import.md", [r"`toolcrib servers add time -- uvx mcp-server-time`", r"address"]),
    ("How do I approve a call?", "policies.md", [r"`toolcrib approvals (answer|watch)", r"question", r"inbox"]),
    (
        "Where is the configuration looked for?",
        "projects.md",
        [r"working directory", r"closest `toolcrib\.toml`", r"~/\.config/toolcrib/toolcrib\.toml"],
    ),
    (
        "How do I import servers from Claude Desktop or Cursor?",
        "import.md",
        [r"`toolcrib import claude-desktop`", r"`toolcrib import cursor"],
    ),
    (
        "How do I limit how often a tool is called?",
        "policies.md",
        [r"`rate = ", r"`caller_rate`", r"TOOL_RATE_LIMITED"],
    ),
    ("How do I make a token?", "tokens.md", [r"`toolcrib tokens create ci --level write"]),
    ("What is quarantine?", "policies.md", [r"no longer fits its pin", r"not listed and cannot be called"]),
    ("What are pins?", "policies.md", [r"A pin is the hash", r"`toolcrib\.lock`"]),
    ("How do I see what was called?", "audit.md", [r"by whom", r"`toolcrib audit tail`"]),
    ("How do I run a tool isolated?", "isolation.md", [r'`isolation = "confined"` under `\[servers\.notes\]`']),
    (
        "How do I add documents to the knowledge base?",
        "knowledge.md",
        [r"`toolcrib kb add docs --collection handbook`"],
    ),
    ("Which formats can the knowledge base read?", "knowledge.md", [r"Markdown, text, HTML, PDF"]),
    ("How long does a token last?", "tokens.md", [r"90 days"]),
    ("How do I disable a tool?", "policies.md", [r"`toolcrib policy \S+ disable`"]),
    (
        "How do I require approval before deleting a file?",
        "policies.md",
        [r"policy `ask`", r"`toolcrib policy 'files__delete_\*' ask`"],
    ),
    ("How do I install toolcrib?", "getting-started.md", [r"`uv tool install toolcrib`"]),
    ("How do I connect Claude Code?", "import.md", [r"`toolcrib connect claude-code`"]),
    ("Why is a tool missing or hidden?", "troubleshooting.md", [r"server is not reached", r"quarantine"]),
    ("Why does my server not start?", "troubleshooting.md", [r"names the cause"]),
    ("How do I serve on another port?", "troubleshooting.md", [r"`toolcrib up --port 0`"]),
    ("How do I run toolcrib as a systemd service?", "operating.md", [r"`systemctl --user enable --now toolcrib`"]),
    ("How do I run toolcrib in a container?", "operating.md", [r"`docker build -f deploy/Dockerfile"]),
    ("How do I run toolcrib behind a reverse proxy?", "operating.md", [r"ends TLS", r"everybody needs a token"]),
    ("How do I upgrade toolcrib?", "operating.md", [r"`uv tool upgrade toolcrib`"]),
    ("How do I back up toolcrib?", "operating.md", [r"copying these files while it is stopped"]),
    ("How do I move from mcpo to toolcrib?", "coming-from.md", [r"`toolcrib serve --config config\.json"]),
    ("How do I move from mcp-proxy to toolcrib?", "coming-from.md", [r"`toolcrib serve --config servers\.json"]),
    ("What is a session?", "projects.md", [r"^A session is one agent at work in a project\. \[1\]"]),
]
UNANSWERED = [
    "What will the weather be tomorrow in Paris?",
    "How do I bake a chocolate cake?",
    "Who won the football world cup in 1998?",
    "What is the capital of Australia?",
    "How do I treat a cold?",
    "How do I install toolcrib on Windows with the MSI installer?",
    "How much does a toolcrib subscription cost per month?",
    "Can toolcrib send me an SMS when a server fails?",
    "Does toolcrib support GraphQL subscriptions?",
]
MODES = ["bundled", "none"]


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    return tmp_path_factory.mktemp("questions")


@pytest.fixture(params=MODES)
async def ask(request, states):
    """Ask toolcrib's own documentation, with vectors and without; indexed once."""
    config = KbConfig(path=str(states / f"{request.param}.db"), embedder=request.param)
    library = await make_library(config, Environment()).open()

    async def asked(question):
        return await Answerer().answer(library, Search(question, ("toolcrib",), 8))

    yield asked
    await library.close()


async def test_what_new_users_ask_is_answered_from_the_right_page(ask):
    for question, page, facts in ANSWERED:
        answered = await ask(question)

        assert answered.mode == "extractive", question
        assert answered.passages[0].document.source == f"toolcrib/docs/{page}", (question, answered.text)
        assert [fact for fact in facts if not re.search(fact, answered.text)] == [], (question, answered.text)


async def test_answers_read_as_sentences_each_with_its_source(ask):
    for question, _, _ in ANSWERED:
        answered = await ask(question)
        said = [each.sentence for each in answered.support]

        assert 1 <= len(said) <= 5, question
        assert len(set(said)) == len(said), question
        assert " ".join(said) == answered.text
        assert answered.numbers == tuple(range(1, len(answered.passages) + 1))
        for sentence in said:
            assert re.search(r"[.!…)] \[\d\]$", sentence), (question, sentence)
            assert not re.search(r"```|\|---|\*\*|\]\(|^[-*#|] ", sentence), (question, sentence)
        if not question.startswith("How do"):
            assert not re.search(r"^`toolcrib [^`]*`\.", answered.text, re.MULTILINE), question


async def test_quotes_of_one_source_stand_together_in_its_order(ask):
    for question, _, _ in ANSWERED:
        answered = await ask(question)
        places = dict(zip(answered.numbers, answered.passages, strict=True))
        sources = [places[each.markers[0]].document.source for each in answered.support]
        starts = [places[each.markers[0]].passage.place.start for each in answered.support]

        assert len([at for at in range(1, len(sources)) if sources[at] != sources[at - 1]]) == len(set(sources)) - 1
        assert all(a <= b for (a, b, s, t) in zip(starts, starts[1:], sources, sources[1:], strict=False) if s == t)


async def test_what_the_documentation_does_not_say_is_said_plainly(ask):
    for question in UNANSWERED:
        answered = await ask(question)

        assert (answered.mode, answered.text, answered.passages) == ("none", NOTHING, ()), question
