"""The set-up script with stand-ins for dpkg, apt and sudo: what it asks for, and what it says when it may not."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOCK = (ROOT / "tools/lock/packages.lock").read_text()


def section(name):
    body = LOCK.split(f"[{name}]\n")[1].split("\n[")[0]
    return [line for line in body.splitlines() if line and not line.startswith("#")]


@pytest.fixture
def machine(tmp_path):
    """run(installed, user, sudo) -> (finished process, the apt-get calls made)"""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "awk", "sort", "comm", "cat", "dirname", "env", "true", "grep"):
        (tools / name).symlink_to(shutil.which(name))

    def script(name, body):
        (tools / name).write_text(f"#!/bin/bash\n{body}\n")
        (tools / name).chmod(0o755)

    def run(installed, user=0, sudo=True):
        script("dpkg-query", "".join(f"echo 'installed {name}'; " for name in installed) + "exit 1")
        script("id", f"echo {user}")
        script("apt-get", f'echo "$DEBIAN_FRONTEND $*" >>{tmp_path}/calls; [ ! -t 0 ] && ! read -r -t 0.1')
        if sudo:
            script("sudo", f'echo "sudo $1" >>{tmp_path}/calls; [ "$1" = -n ] && shift; exec "$@"')
        done = subprocess.run([tools / "bash", ROOT / "tools/setup.sh", "build"], env={**os.environ, "PATH": str(tools)},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        calls = tmp_path / "calls"
        return done, calls.read_text().splitlines() if calls.exists() else []
    return run


def test_nothing_missing_calls_nothing(machine):
    done, calls = machine(section("apt build"), user=1000, sudo=False)
    assert (done.returncode, done.stdout, done.stderr, calls) == (0, "", "", [])


def test_installs_exactly_what_is_missing(machine):
    wanted = section("apt build")
    done, calls = machine([name for name in wanted if name not in ("cmake", "lld-19")])
    assert done.returncode == 0, done.stderr
    assert len(calls) == 2 and calls[0].startswith("noninteractive ") and calls[0].endswith(" update")
    assert calls[1].endswith(" install --no-remove --no-install-recommends cmake lld-19")


def test_uses_sudo_without_asking(machine):
    done, calls = machine(section("apt build")[1:], user=1000)
    assert done.returncode == 0, done.stderr
    assert calls[0] == "sudo -n" and calls[-1].endswith(section("apt build")[0])


def test_says_what_to_do_without_root_and_sudo(machine):
    done, calls = machine(section("apt build")[1:], user=1000, sudo=False)
    assert done.returncode == 1 and calls == []
    assert "needs root" in done.stderr and section("apt build")[0] in done.stderr


def test_unknown_profile_is_named():
    done = subprocess.run([ROOT / "tools/setup.sh", "moon"], capture_output=True, text=True)
    assert done.returncode == 1 and "'moon'" in done.stderr


def test_every_python_package_is_pinned_and_hashed():
    for group in re.findall(r"^\[pip (\w+)\]", LOCK, re.M):
        for line in section(f"pip {group}"):
            assert re.fullmatch(r"[a-z0-9.-]+==\S+( --hash=sha256:[0-9a-f]{64})+", line), line
