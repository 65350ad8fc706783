#!/usr/bin/env python3
"""Rewrites one [pip GROUP] section of packages.lock from its "# wants:" line.

Asks pip (as it is configured on this machine) to resolve the names for CPython 3.11 on x86-64 and on aarch64 and writes
each version with the hashes of both wheels; "# wants (x86_64 only):" asks for one machine. Run it with the Python of a
virtual environment whose pip is new (older ones download the wheels to look inside): python tools/lock/update.py test
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

LOCK = pathlib.Path(__file__).with_name("packages.lock")


def resolve(wants, machine):
    """[(name, version, sha256)] of wants and all that they need on that machine."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        platforms = [f"manylinux_2_{minor}_{machine}" for minor in range(28, 4, -1)]  # Debian 12 has glibc 2.36
        platforms += [f"manylinux{year}_{machine}" for year in (2014, 2010, 1)]
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed",
                   "--only-binary=:all:", "--python-version=3.11", "--target", folder, "--report", str(report)]
        subprocess.run(command + [f"--platform={p}" for p in platforms] + wants, check=True)
        items = json.loads(report.read_text())["install"]
    return [(item["metadata"]["name"].lower().replace("_", "-"), item["metadata"]["version"],
             item["download_info"]["archive_info"]["hashes"]["sha256"]) for item in items]


def section_lines(wants, machines):
    found = {}
    for machine in machines:
        for name, version, sha in resolve(wants, machine):
            known_version, hashes = found.setdefault(name, (version, []))
            if known_version != version:
                sys.exit(f"update.py: {name} resolves to {known_version} and {version} on the two machines; pin it")
            if sha not in hashes:
                hashes.append(sha)
    return [" ".join([f"{name}=={version}"] + [f"--hash=sha256:{sha}" for sha in hashes])
            for name, (version, hashes) in sorted(found.items())]


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: update.py GROUP")
    text = LOCK.read_text()
    match = re.search(rf"^\[pip {re.escape(sys.argv[1])}\]\n# wants( \(x86_64 only\))?: (.*)\n((?:[^\[\n#].*\n)*)", text, re.M)
    if not match:
        sys.exit(f"update.py: no section [pip {sys.argv[1]}] with a wants line in {LOCK.name}")
    machines = ["x86_64"] if match.group(1) else ["x86_64", "aarch64"]
    lines = "".join(line + "\n" for line in section_lines(match.group(2).split(), machines))
    LOCK.write_text(text[:match.start(3)] + lines + text[match.end(3):])


if __name__ == "__main__":
    main()
