#!/usr/bin/env python3
"""The texts of bench/texts.lock, each fetched once and cut to its range in .cache/texts. usage: bench/texts.py (prints the paths)"""
import gzip
import hashlib
import io
import pathlib
import subprocess
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
CACHE = ROOT / ".cache/texts"


def entries():
    for line in (ROOT / "bench/texts.lock").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            name, package, version, package_hash, path, begin, end, text_hash = line.split()
            yield name, package, version, package_hash, path, int(begin), int(end), text_hash


def check(what, data, wanted):
    got = hashlib.sha256(data).hexdigest()
    if got != wanted:
        sys.exit(f"texts.py: {what}: sha256 is {got}, bench/texts.lock says {wanted}")
    return data


def package_file(package, version, package_hash, path):
    """The bytes of one file of a .deb, fetched by apt unless it lies in the cache."""
    deb = CACHE / f"{package}_{version.replace(':', '%3a')}_all.deb"
    if not deb.exists():
        done = subprocess.run(["apt-get", "-q", "download", f"{package}={version}"], cwd=CACHE, capture_output=True, text=True)
        if done.returncode != 0 or not deb.exists():
            sys.exit(f"texts.py: apt-get download {package}={version}: {done.stderr.strip() or done.stdout.strip()}\n"
                     "(after apt-get update, on Debian 12)")
    check(deb.name, deb.read_bytes(), package_hash)
    content = subprocess.run(["dpkg-deb", "--fsys-tarfile", deb], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        names = tar.getnames()
        if f".{path}" in names:
            return tar.extractfile(f".{path}").read()
        return gzip.decompress(tar.extractfile(f".{path}.gz").read())


def texts():
    """{name: path}"""
    CACHE.mkdir(parents=True, exist_ok=True)
    found = {}
    for name, package, version, package_hash, path, begin, end, text_hash in entries():
        target = CACHE / f"{name}.txt"
        if not target.exists() or hashlib.sha256(target.read_bytes()).hexdigest() != text_hash:
            whole = pathlib.Path(path).read_bytes() if package == "=" else package_file(package, version, package_hash, path)
            target.write_bytes(check(name, whole[begin:end], text_hash))
        found[name] = target
    return found


if __name__ == "__main__":
    print(*texts().values(), sep="\n")
