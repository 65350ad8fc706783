#!/usr/bin/env python3
"""Holds the source tree to the folder table: who may include whom, and that heavy headers stay in .cpp files.

usage: tools/check_includes.py [ROOT]    exits 1 and prints every offence as file:line: what, and what is allowed
"""
import pathlib
import re
import sys

# Each room under src/ and the rooms it may include, besides itself; what those may include is allowed as well.
# include/brisk and base are open to all. A room holds its sub-folders unless they have a row of their own.
ROOMS = {
    "base": [],
    "text": ["base"],
    "tensor": ["base"],
    "op": ["tensor"],
    "kernel": ["op"],
    "ir": ["op"],
    "import/decoder": ["ir"],
    "import/onnx": ["ir", "text"],
    "import/hf": ["import/decoder", "text"],
    "import/gguf": ["import/decoder", "text"],
    "import": ["import/onnx", "import/hf", "import/gguf"],
    "backend/ref": ["kernel"],
    "backend/cpu": ["kernel"],
    "backend/cuda": ["kernel"],
    "engine": ["kernel", "text"],
    "runtime": ["engine", "kernel"],
    "state": ["tensor"],
    "passes": ["ir", "kernel"],
    "convert": ["ir"],
    "quantize": ["ir", "text"],
    "tuner": ["kernel", "ir"],
    "compiler": ["import", "passes", "convert", "quantize", "tuner", "engine", "runtime", "state"],
    "sched": ["state"],
    "loop": ["sched", "runtime", "engine", "text"],
    "repository": ["engine"],
    "server": ["loop", "repository", "text"],
    "api": ["compiler", "loop", "repository", "quantize", "backend/ref", "backend/cpu", "backend/cuda"],
}
HEAVY = ("boost/", "google/protobuf/", "grpcpp/", "nlohmann/")
GENERATED = (".pb.h", "_generated.h", "brisk_version.h")
SOURCES = (".cpp", ".h", ".cu", ".cuh")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def closure(room):
    """All rooms that `room` may include: itself, its row, and theirs."""
    seen, todo = set(), [room, "base"]
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += ROOMS[name]
    return seen


def room_of(path):
    """The row of ROOMS that a path below src/ belongs to, or None."""
    parts = path.parts[:-1]
    for length in range(len(parts), 0, -1):
        name = "/".join(parts[:length])
        if name in ROOMS:
            return name
    return None


def check_public(where, bracket, target, root):
    """include/brisk knows itself and the standard library only."""
    if bracket == "<":
        if "/" in target or target.endswith(".h"):
            yield f"{where}: <{target}> in a public header: only the C++ standard library and brisk/ are allowed"
    elif not (target.startswith("brisk/") and (root / "include" / target).is_file()):
        yield f'{where}: "{target}" in a public header: only "brisk/..." is allowed'


def check_private(where, source, room, target, root):
    """One quoted include of a file below src/."""
    if target.startswith("brisk/"):
        if not (root / "include" / target).is_file():
            yield f'{where}: "{target}" is not in include/'
        return
    if target.endswith(GENERATED):
        if source.suffix not in (".cpp", ".cu"):
            yield f'{where}: generated "{target}" belongs in a .cpp file'
        return
    if not (root / "src" / target).is_file():
        yield f'{where}: "{target}" is not in src/ or include/ (paths start there, not beside the file)'
        return
    other = room_of(pathlib.PurePosixPath(target))
    if other is None:
        yield f'{where}: "{target}" lies in a folder without a row in tools/check_includes.py'
    elif other not in closure(room):
        yield f'{where}: {room} may not include {other} ("{target}"); it may: {", ".join(sorted(closure(room)))}'


def check_file(path, root):
    source = path.relative_to(root)
    public = source.parts[0] == "include"
    room = None if public else room_of(source.relative_to("src"))
    if not public and room is None:
        yield f"{source}: lies in a folder without a row in tools/check_includes.py"
        return
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        where = f"{source}:{number}"
        if source.suffix in (".h", ".cuh") and re.match(r"\s*using\s+namespace\b", line):
            yield f"{where}: using namespace in a header"
        match = INCLUDE.match(line)
        if not match:
            continue
        bracket, target = match.groups()
        if source.suffix in (".h", ".cuh") and target.startswith(HEAVY):
            yield f"{where}: heavy header {target} belongs in a .cpp file"
        if public:
            yield from check_public(where, bracket, target, root)
        elif bracket == '"':
            yield from check_private(where, source, room, target, root)


def check_cmake(root):
    """The USES lists of src/CMakeLists.txt say the same as the table, or less."""
    listing = root / "src" / "CMakeLists.txt"
    if not listing.is_file():
        return
    text = re.sub(r"#.*", "", listing.read_text())
    for call in re.finditer(r"brisk_library\(([^)]*)\)", text):
        words = call.group(1).split()
        room = room_of(pathlib.PurePosixPath(words[0], "x"))
        if room is None:
            yield f"src/CMakeLists.txt: brisk_library({words[0]}) has no row in tools/check_includes.py"
            continue
        uses = words[words.index("USES") + 1:] if "USES" in words else []
        for use in uses:
            if use in ("SYSTEM", "DIR", "PRIVATE"):
                break
            other = room_of(pathlib.PurePosixPath(use, "x"))
            if other is None or other not in closure(room):
                yield f"src/CMakeLists.txt: {words[0]} may not use {use}; it may: {', '.join(sorted(closure(room)))}"


def check_tree(root):
    offences = list(check_cmake(root))
    for top in ("include", "src"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix in SOURCES and path.is_file():
                offences += check_file(path, root)
    return offences


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    offences = check_tree(root)
    print("\n".join(offences) if offences else "check_includes: the tree keeps to the folder table")
    sys.exit(1 if offences else 0)


if __name__ == "__main__":
    main()
