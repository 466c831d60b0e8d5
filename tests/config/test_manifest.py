"""Lists of tool servers in every shape met so far."""

import pytest

from toolcrib.config.manifest import ManifestEntry, has_manifest_names, listed_items, read_entries

MAIL = {"mcpServerName": "mail"}
READ = ManifestEntry("mail", "mail")

CORPUS = [
    ("a list under mcpServers", {"mcpServers": [MAIL]}, [READ]),
    ("a bare list", [MAIL], [READ]),
    ("a table by name", {"mcpServers": {"mail": {}}}, [READ]),
    ("a table of named entries", {"mcpServers": {"m": MAIL}}, [READ]),
    ("an OData reply", {"@odata.context": "x", "value": [MAIL]}, [READ]),
    ("both names", [{**MAIL, "mcpServerUniqueName": "mcp_Mail"}], [ManifestEntry("mail", "mcp_Mail")]),
    ("the unique name alone", [{"mcpServerUniqueName": "mail"}], [READ]),
    ("a plain name", [{"name": "mail"}], [READ]),
    ("an address", [{**MAIL, "url": "https://m.example/"}], [ManifestEntry("mail", "mail", "https://m.example/")]),
    (
        "an address for a unique name, as older gateways write it",
        [{**MAIL, "mcpServerUniqueName": "https://m.example/"}],
        [ManifestEntry("mail", "mail", "https://m.example/")],
    ),
    (
        "everything",
        [
            {
                **MAIL,
                "headers": {"X-Key": "k", "X-Number": 3},
                "audience": "api://mail",
                "scope": "Mail.All",
                "publisher": "Example",
                "id": "1",
            }
        ],
        [
            ManifestEntry(
                "mail", "mail", headers={"X-Key": "k"}, audience="api://mail", scope="Mail.All", publisher="Example"
            )
        ],
    ),
    ("words for nothing", [{**MAIL, "audience": "default", "scope": "null", "url": None}], [READ]),
    ("entries that are none", [None, 3, "mail", {}, {"mcpServerName": "  "}, {"mcpServerName": 7}, MAIL], [READ]),
    ("an empty list", {"mcpServers": []}, []),
]


@pytest.mark.parametrize(("root", "expected"), [row[1:] for row in CORPUS], ids=[row[0] for row in CORPUS])
def test_a_list_of_servers_is_read(root, expected):
    assert list(read_entries(root)) == expected


@pytest.mark.parametrize("root", [None, 3, "x", {}, {"mcpServers": "x"}, {"mcpServers": None}])
def test_what_holds_no_list_is_told_apart_from_an_empty_one(root):
    assert listed_items(root) is None
    assert listed_items([]) == []


def test_a_list_without_end_is_cut():
    assert len(list(read_entries([MAIL] * 5000))) == 1000


def test_only_a_manifests_own_keys_make_one():
    assert has_manifest_names({"mcpServers": [MAIL]})
    assert not has_manifest_names({"mcpServers": {"mail": {"command": "x"}}})


def test_an_entry_shown_by_mistake_shows_no_header():
    assert "secret" not in repr(ManifestEntry("a", "a", headers={"Authorization": "Bearer secret"}))
