"""The include checker on small trees: what must pass and what must be named."""
import pathlib
import subprocess
import sys

import check_includes
import pytest

SCRIPT = pathlib.Path(check_includes.__file__)


def make_tree(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


GOOD = {
    "include/brisk/result.h": "#include <string>\n",
    "src/base/file.h": '#include "brisk/result.h"\n',
    "src/tensor/shape.h": '#include "base/file.h"\n#include <vector>\n',
    "src/ir/graph.h": '#include "tensor/shape.h"\n',
    "src/import/gguf/reader.cpp": '#include <nlohmann/json.hpp>\n#include "ir/graph.h"\n',
    "src/CMakeLists.txt": "brisk_library(base)\nbrisk_library(tensor USES base)\nbrisk_library(import/gguf USES ir)\n",
}


def test_good_tree_passes(tmp_path):
    assert check_includes.check_tree(make_tree(tmp_path, GOOD)) == []


@pytest.mark.parametrize("name, text, told", [
    ("src/base/bad.h", '#include "tensor/shape.h"\n', "src/base/bad.h:1: base may not include tensor"),
    ("src/tensor/bad.cpp", '\n #  include "ir/graph.h"\n', "src/tensor/bad.cpp:2: tensor may not include ir"),
    ("src/ir/bad.h", "#include <boost/asio.hpp>\n", "heavy header boost/asio.hpp"),
    ("src/ir/bad.h", "#include <nlohmann/json.hpp>\n", "heavy header nlohmann/json.hpp"),
    ("src/ir/bad.h", '#include "onnx.pb.h"\n', 'generated "onnx.pb.h" belongs in a .cpp'),
    ("src/ir/bad.h", "using namespace std;\n", "using namespace in a header"),
    ("src/ir/bad.h", '#include "graph.h"\n', '"graph.h" is not in src/ or include/'),
    ("src/ir/bad.h", '#include "brisk/none.h"\n', '"brisk/none.h" is not in include/'),
    ("src/attic/bad.h", "\n", "src/attic/bad.h: lies in a folder without a row"),
    ("src/backend/cpu/bad.h", '#include "backend/ref/x.h"\n', "is not in src/"),
    ("include/brisk/bad.h", "#include <fmt/core.h>\n", "<fmt/core.h> in a public header"),
    ("include/brisk/bad.h", '#include "base/file.h"\n', '"base/file.h" in a public header'),
    ("src/CMakeLists.txt", "brisk_library(base USES ir)\n", "base may not use ir"),
    ("src/CMakeLists.txt", "brisk_library(attic)\n", "brisk_library(attic) has no row"),
])
def test_offence_is_named(tmp_path, name, text, told):
    offences = check_includes.check_tree(make_tree(tmp_path, {**GOOD, name: text}))
    assert len(offences) == 1 and told in offences[0]


def test_backends_do_not_know_each_other(tmp_path):
    tree = make_tree(tmp_path, {**GOOD, "src/backend/ref/x.h": "\n",
                                "src/backend/cpu/bad.cpp": '#include "backend/ref/x.h"\n'})
    assert "backend/cpu may not include backend/ref" in check_includes.check_tree(tree)[0]


def test_every_row_names_known_rooms():
    for room, may in check_includes.ROOMS.items():
        assert set(may) <= set(check_includes.ROOMS), room
        assert room not in set().union(*(check_includes.closure(other) for other in may)), f"{room} is in a cycle"


def test_exit_code(tmp_path):
    good = subprocess.run([sys.executable, SCRIPT, make_tree(tmp_path / "good", GOOD)])
    bad = subprocess.run([sys.executable, SCRIPT, make_tree(tmp_path / "bad", {"src/base/a.h": '#include "no.h"\n'})])
    assert (good.returncode, bad.returncode) == (0, 1)
