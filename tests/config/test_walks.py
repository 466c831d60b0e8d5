"""What it takes to add something to the configuration: tried on a copy of the package that differs in a few lines."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import toolcrib
from toolcrib.config.tables import SERVER_KEYS, SETTINGS, TOOL_KEYS
from toolcrib.core.kinds import Policy

PACKAGE = Path(toolcrib.__file__).parent
DOCS = PACKAGE.parent.parent / "docs"


class ChangedPackage:
    """A copy of the package with a few lines changed, to be run by a Python of its own."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self.touched: set[str] = set()
        shutil.copytree(PACKAGE, place / "toolcrib", ignore=shutil.ignore_patterns("static", "*.bin", "*.npz"))

    def change(self, path: str, old: str, new: str) -> None:
        """Replace a line of one file; it must be there exactly once."""
        own = self._place / "toolcrib" / path
        text = own.read_text()
        assert text.count(old) == 1
        own.write_text(text.replace(old, new))
        self.touched.add(path)

    def tell(self, script: str) -> object:
        """What a script prints as JSON."""
        env = {**os.environ, "PYTHONPATH": str(self._place), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


NEW_KEY = """\
    patience_s: Annotated[float | None, Key(readers.timeout_s, min, mask=Secrecy.NONE, http_level=_ADMIN)] = None
"""
KEY_STORY = r"""
import json
from toolcrib.config.edit import add_server, change_server
from toolcrib.config.explain import explain
from toolcrib.config.merge import merge
from toolcrib.config.model import ServerConfig, config_hash
from toolcrib.config.parse import parse_toml
from toolcrib.core.errors import ConfigError
from toolcrib.server.rest.servers import HARMLESS, NewServer, ServerChange
from toolcrib.server.views.servers import shown_config

user = parse_toml('[servers.a]\npatience = "10s"', "user.toml")
project = parse_toml('[servers.a]\ncommand = "x"\npatience = "5m"', "project.toml")
config = merge(user, project)
try:
    parse_toml('[servers.a]\ncommand = "x"\npatience = "long"', "wrong.toml")
except ConfigError as error:
    complaint = str(error)
told = [line for line in explain(config) if line.setting == "servers.a.patience"]
print(json.dumps({
    "merged": config.servers["a"].patience_s,
    "complaint": complaint,
    "explained": [(line.value, line.origin, line.overrules) for line in told],
    "written": add_server("", ServerConfig("a", command="x", patience_s=3.0)),
    "changed": change_server('[servers.a]\ncommand = "x"\n', "a", {"patience": "7s"}),
    "shown": shown_config(config.servers["a"])["patience"],
    "rest": ["patience" in body.__struct_fields__ for body in (NewServer, ServerChange)],
    "harmless": "patience" in HARMLESS,
}))
"""


def test_a_key_of_a_server_is_declared_in_one_file(tmp_path):
    """It is read, merged as the rule it is, explained, written, edited, shown and taken over REST; what is left to do
    is to use it and to describe it."""
    package = ChangedPackage(tmp_path)
    package.change("config/model.py", "    is_own: bool = False\n", NEW_KEY + "    is_own: bool = False\n")

    told = package.tell(KEY_STORY)

    assert told == {
        "merged": 10.0,
        "complaint": "wrong.toml:3: servers.a.patience must be seconds as a number, or a duration such as "
        '"5m", "30s" or "500ms", but is the string "long".',
        "explained": [[10.0, "user.toml:2", ["300.0 (project.toml:3)"]]],
        "written": '[servers.a]\ncommand = "x"\npatience = 3\n',
        "changed": '[servers.a]\ncommand = "x"\npatience = "7s"\n',
        "shown": 10.0,
        "rest": [True, True],
        "harmless": True,
    }
    assert package.touched == {"config/model.py"}


SETTING_STORY = r"""
import json
from toolcrib.config.explain import explain
from toolcrib.config.merge import merge
from toolcrib.config.parse import parse_toml

config = merge(parse_toml('[results]\nglue = "${A}"', "one.toml"), parse_toml('[results]\nglue = "abc"', "two.toml"))
told = {line.setting: line.value for line in explain(config)}
print(json.dumps([config.results.glue, told["results.glue"]]))
"""


def test_a_setting_is_declared_in_one_file_and_masked_as_that_says(tmp_path):
    """A preference: the strongest layer's counts; a secret is not shown."""
    package = ChangedPackage(tmp_path)
    declared = '    glue: Annotated[str, prefer(readers.text, is_secret=True, mask=Secrecy.KEY)] = ""\n'
    package.change("config/model.py", "    space: Annotated", declared + "    space: Annotated")

    assert package.tell(SETTING_STORY) == ["abc", "***"]


def test_every_key_of_a_server_a_tool_and_a_table_is_described():
    """The documentation writes each of them at least once, as a file would have it."""
    text = "\n".join(path.read_text() for path in DOCS.glob("*.md"))
    keys = {name.rpartition(".")[2] for name in (*SETTINGS, *SERVER_KEYS, *TOOL_KEYS)}

    written = r'`{0}`|^[# ]*{0} = |[{{,] *{0} = |"{0}": |^\[[\w.]+\.{0}[.\]]'
    missing = {key for key in keys if not re.search(written.format(key), text, re.MULTILINE)}

    assert missing == set()


POLICY_STORY = r"""
import json
from toolcrib.config.keys import POLICY
from toolcrib.config.merge import merge
from toolcrib.config.parse import parse_toml
from toolcrib.core.access import Decision, decided_by
from toolcrib.core.kinds import Policy
from toolcrib.server.rest.tools import POLICIES
from toolcrib.server.web.tools_page import SHOWN

user = parse_toml('[security]\npolicy = "review"', "user.toml")
print(json.dumps({
    "merged": [merge(user, parse_toml(f'[security]\npolicy = "{one}"', "p.toml")).security.policy for one in Policy],
    "decided": decided_by(Policy("review")),
    "rest": list(POLICIES),
    "page": SHOWN,
}))
"""


def test_a_kind_of_policy_is_a_member_and_what_it_comes_to(tmp_path):
    """Its place among the others is how strict it is; every list of policies has it. What is left are words for it."""
    package = ChangedPackage(tmp_path)
    package.change("core/kinds.py", '    DENY = "deny"\n', '    REVIEW = "review"\n    DENY = "deny"\n')
    package.change("core/access.py", "        case Policy.ASK:\n", "        case Policy.ASK | Policy.REVIEW:\n")

    told = package.tell(POLICY_STORY)

    assert told == {
        "merged": ["review", "review", "review", "deny", "disable"],
        "decided": "ask",
        "rest": ["allow", "ask", "review", "deny", "disable"],
        "page": ["allow", "ask", "review"],
    }
    assert package.touched == {"core/kinds.py", "core/access.py"}


def test_nobody_but_the_rule_decides_by_a_kind_of_policy():
    """Whoever wants to know what a policy comes to asks ``decided_by``, which is exhaustive; only what is not even
    shown is a matter of its own."""
    found = []
    for text in filter(re.compile(r"\bPolicy\.").search, (path.read_text() for path in PACKAGE.rglob("*.py"))):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Compare):
                sides = [ast.unparse(side) for side in (node.left, *node.comparators)]
                found += [name for side in sides for name in re.findall(r"Policy\.[A-Z]+", side)]

    assert {*found} == {"Policy.DISABLE"}


def test_the_page_has_words_for_every_policy():
    """In one place: a kind without any fails here, and wherever it is shown."""
    macros = (PACKAGE / "server" / "web" / "templates" / "macros.html").read_text()
    words = re.search(r"macro policy_words\(name\) %\}\{\{ (\{.*?\})\[name\]", macros)
    tones = re.search(r"macro policy\(name\) %\}\{\{ badge\(name, (\{.*?\})", macros)

    assert words is not None
    assert tones is not None
    assert ast.literal_eval(words[1]).keys() == ast.literal_eval(tones[1]).keys() == {str(kind) for kind in Policy}
