import os
import socket
import subprocess

import pytest

from toolcrib.core.errors import UnreadableSource
from toolcrib.core.globs import is_ignored, read_rules
from toolcrib.knowledge.survey import FileCandidate, Skipped, find_files, read


def sources(path):
    return [found.source.removeprefix(f"{path}/") for found in find_files(path) if isinstance(found, FileCandidate)]


def write(root, **files):
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_a_folder_gives_its_files_in_order_without_what_is_hidden_or_made(tmp_path):
    write(tmp_path, b_dot_md="", a__c_dot_md="", _dot_hidden="", _dot_git__config="", node_modules__x_dot_js="")

    assert sources(tmp_path) == ["a/c.md", "b.md"]


def test_ignore_files_count_from_where_they_are(tmp_path):
    write(
        tmp_path,
        _dot_gitignore="*.log\n/top.md\nout/\n!keep.log\n# a comment\n",
        sub___dot_toolcribignore="*.txt\n",
        top_dot_md="",
        sub__top_dot_md="",
        x_dot_log="",
        sub__keep_dot_log="",
        sub__a_dot_txt="",
        b_dot_txt="",
        out__x_dot_md="",
        sub__out__y_dot_md="",
    )

    assert sources(tmp_path) == ["b.txt", "sub/keep.log", "sub/top.md"]


CASES = [
    ("*.log", "a/b/x.log"), ("/x", "x"), ("/x", "a/x"), ("a/*.md", "a/x.md"), ("a/*.md", "a/b/x.md"), ("**/z", "z"),
    ("**/z", "a/b/z"), ("a/**", "a/b"), ("a/**", "a"), ("a/**/c", "a/c"), ("a/**/c", "a/x/y/c"), ("doc?", "docs"),
    ("[!a]b", "xb"), ("[!a]b", "ab"), ("\\!x", "!x"), ("*a*a*a*a*a*a*a*b", "a" * 200), ("foo/", "foo"), ("x y", "x y"),
    ("x\\ ", "x "), ("x\\  ", "x "), ("x  ", "x"), ("x  ", "x "), ("**", "a/b"), ("*/x", "a/b/x"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "path"), CASES)
def test_rules_mean_what_git_means(rule, path, tmp_path):
    (tmp_path / ".gitignore").write_text(f"{rule}\n")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    asked = subprocess.run(["git", "-C", tmp_path, "check-ignore", "-q", "--no-index", path], check=False)

    assert is_ignored(path, False, [("", read_rules(rule))]) == (asked.returncode == 0)


def test_links_are_never_followed(tmp_path):
    root, outside = tmp_path / "root", tmp_path / "secret"
    root.mkdir()
    outside.mkdir()
    (outside / "s.md").write_text("secret")
    (root / "folder").symlink_to(outside)
    (root / "file.md").symlink_to(outside / "s.md")

    assert [(type(found), found.reason) for found in find_files(root)] == [(Skipped, "it is a link")] * 2


@pytest.mark.parametrize("swapped", ["sub", "sub/a.md"])
def test_a_link_put_in_place_of_what_was_listed_is_not_followed(tmp_path, swapped):
    root, outside = tmp_path / "root", tmp_path / "outside"
    write(root, sub__a_dot_md="ours")
    write(outside, a_dot_md="secret")
    (candidate,) = find_files(root)
    (root / swapped).rename(tmp_path / "moved")
    (root / swapped).symlink_to(outside / "a.md" if swapped.endswith("md") else outside)

    with pytest.raises(UnreadableSource, match="link"):
        read(candidate, 1000)


def test_what_is_no_ordinary_file_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.md")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket.md"))

        assert sources(tmp_path) == []
    with pytest.raises(UnreadableSource, match="ordinary"):
        read(FileCandidate(tmp_path, ("pipe.md",)), 1000)


def test_a_file_over_the_limit_is_not_read(tmp_path):
    (tmp_path / "big.txt").write_bytes(b"x" * 2_000_001)

    with pytest.raises(UnreadableSource, match="2 MB, the limit is 2 MB"):
        read(FileCandidate(tmp_path, ("big.txt",)), 2_000_000)


def test_a_name_that_is_no_text_is_told(tmp_path):
    with open(os.fsencode(tmp_path) + b"/bad\xff.md", "w") as file:
        file.write("x")

    (found,) = find_files(tmp_path)
    assert found.reason == "its name is not UTF-8"
