"""From wishes to what the spawner is told."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from toolcrib.core.errors import SourceUnavailable
from toolcrib.core.kinds import IsolationLevel
from toolcrib.isolate.levels import IsolationWanted, ResourceLimits
from toolcrib.isolate.plan import DEVICE, READ, WRITE, Binds, Host, confine, wrap
from toolcrib.transports.process.spec import ProcessSpec

SPEC = ProcessSpec(("/bin/sh", "-c", "true"), {"PATH": os.defpath, "TMPDIR": "/tmp"})
HOST = Host("x86_64", Path("/home/me"), Path("/tmp"), "/usr/bin/bwrap")


def test_no_isolation_changes_nothing():
    """Not even the limits."""
    assert confine(SPEC, IsolationWanted(IsolationLevel.NONE), HOST) == SPEC


def test_limits_leave_the_program_where_it_is():
    """Command, directory and environment stay; there is a limit for each thing that has one."""
    bounded = confine(SPEC, IsolationWanted(), HOST)

    assert replace(bounded, confinement=None, isolation="none") == SPEC
    assert bounded.confinement.limits == ResourceLimits().numbers()
    assert (bounded.confinement.handled, bounded.confinement.private) == ((0, 0, 0), "")


def test_a_confined_program_has_a_directory_of_its_own():
    """Where it runs, where temporary files go, and the only place it may write."""
    bounded = confine(SPEC, IsolationWanted(IsolationLevel.CONFINED), HOST)
    private = bounded.confinement.private

    assert private.startswith("/tmp/toolcrib-")
    assert (bounded.cwd, bounded.env["TMPDIR"]) == (private, private)
    assert [path for path, access in bounded.confinement.rules if access == WRITE] == [private]


def test_two_starts_have_two_directories():
    """Nobody can guess or prepare one."""
    first, second = (confine(SPEC, IsolationWanted(IsolationLevel.CONFINED), HOST) for _ in range(2))

    assert first.confinement.private != second.confinement.private


def test_grants_become_rules(tmp_path):
    """Reading is not writing, the directory it runs in is read only, devices are a handful."""
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    wish = IsolationWanted(IsolationLevel.CONFINED, read=(str(tmp_path / "in"),), write=(str(tmp_path / "out"),))

    rules = dict(confine(replace(SPEC, cwd=str(tmp_path)), wish, HOST).confinement.rules)

    assert (rules[str(tmp_path / "in")], rules[str(tmp_path / "out")], rules[str(tmp_path)]) == (READ, WRITE, READ)
    assert rules["/dev/null"] == DEVICE


def test_the_home_is_not_granted_because_a_program_runs_there(tmp_path):
    """Somebody who starts toolcrib at home has not given it away."""
    host = replace(HOST, home=tmp_path)

    bounded = confine(replace(SPEC, cwd=str(tmp_path)), IsolationWanted(IsolationLevel.CONFINED), host)

    assert bounded.cwd == str(tmp_path)
    assert str(tmp_path) not in dict(bounded.confinement.rules)


@pytest.mark.parametrize(
    "wish",
    [
        IsolationWanted(read=("/srv",)),
        IsolationWanted(write=("/tmp",)),
        IsolationWanted(network=False),
        IsolationWanted(network=True, loopback=(80,)),
    ],
)
def test_grants_that_restrict_nothing_are_refused(wish):
    """Whoever writes them believes that everything else is forbidden."""
    with pytest.raises(SourceUnavailable, match="restricts nothing at isolation 'limits'") as caught:
        confine(SPEC, wish, HOST)

    assert 'Set isolation = "confined"' in caught.value.hint
    assert caught.value.details["final"] is True


def test_a_wish_for_what_there_is_loses_its_grants_where_nothing_is_forbidden():
    """``auto`` on a machine that can only limit."""
    settled = IsolationWanted("auto", read=("/srv",), network=False).at(IsolationLevel.LIMITS)

    assert settled == IsolationWanted(IsolationLevel.LIMITS)
    assert IsolationWanted("auto", network=True, loopback=(80,)).at(IsolationLevel.LIMITS) == IsolationWanted(
        IsolationLevel.LIMITS
    )


def test_a_grant_that_does_not_exist_is_refused(tmp_path):
    """A typing mistake would otherwise show as an error of the server."""
    with pytest.raises(SourceUnavailable, match="does not exist"):
        confine(SPEC, IsolationWanted(IsolationLevel.CONFINED, read=(str(tmp_path / "typo"),)), HOST)


def test_ports_of_this_machine_without_a_network_are_refused():
    """They would restrict nothing, and open nothing either."""
    with pytest.raises(SourceUnavailable, match="'loopback' names ports of this machine") as caught:
        confine(SPEC, IsolationWanted(IsolationLevel.CONFINED, loopback=(5432,)), HOST)

    assert "network = true" in caught.value.hint


@pytest.mark.parametrize("level", [IsolationLevel.LIMITS, IsolationLevel.CONFINED, IsolationLevel.ISOLATED])
def test_nobody_who_is_limited_has_the_power_to_raise_limits(level):
    """CAP_SYS_RESOURCE, by the kernel's numbers the 24th; root would have it."""
    assert not confine(SPEC, IsolationWanted(level), HOST).confinement.capabilities >> 24 & 1


@pytest.mark.parametrize("level", [IsolationLevel.CONFINED, IsolationLevel.ISOLATED])
def test_connections_are_looked_at_only_where_there_is_a_network(level):
    """Names can be resolved; beyond that only the ports that were granted."""
    without = confine(SPEC, IsolationWanted(level), HOST).confinement
    with_ = confine(SPEC, IsolationWanted(level, network=True, loopback=(5432,)), HOST).confinement

    assert without.connect_filter == b""
    assert (with_.connect_filter != b"", with_.ports) == (True, (53, 5432))


def test_an_unknown_machine_cannot_confine():
    """No filter is known for it."""
    with pytest.raises(SourceUnavailable, match="cannot be confined on 'riscv64'"):
        confine(SPEC, IsolationWanted(IsolationLevel.CONFINED), replace(HOST, machine="riscv64"))


@pytest.mark.parametrize(("command", "message"), [("no-such-thing", "command not found"), ("./there", "not allowed")])
def test_a_command_that_cannot_run_is_explained_before_it_is_confined(tmp_path, command, message):
    """Inside, a missing file and a forbidden one look the same."""
    (tmp_path / "there").touch()
    spec = replace(SPEC, argv=(command,), cwd=str(tmp_path))

    with pytest.raises(SourceUnavailable, match=message):
        confine(spec, IsolationWanted(IsolationLevel.CONFINED), HOST)


def test_a_bubblewrap_mounts_outer_directories_first():
    """Otherwise an outer one would cover an inner one that was mounted before."""
    argv = wrap("bwrap", Binds(("/usr", "/srv/a/b", "/srv/a"), ("/srv/a/b/c",)), "/srv/a", ("run", "--it"))
    binds = [argv[at : at + 2] for at, word in enumerate(argv) if word in ("--ro-bind-try", "--bind")]

    assert binds == [
        ("--ro-bind-try", "/srv/a"), ("--ro-bind-try", "/srv/a/b"), ("--bind", "/srv/a/b/c"), ("--ro-bind-try", "/usr"),
    ]  # fmt: skip
    assert argv[-3:] == ("--", "run", "--it")
    assert "--share-net" not in argv


def test_a_bubblewrap_shares_the_network_only_if_it_is_granted():
    """Everything else is never shared."""
    granted = set(wrap("bwrap", Binds((), (), network=True), "/", ("true",)))

    assert {"--unshare-all", "--share-net", "--disable-userns", "--die-with-parent", "--new-session"} <= granted
