"""CONTRIBUTING.md's places for a new operator are all there are: a made-up operator is added in exactly these, in an overlay of
the tree; the few files concerned are compiled and linked against the build's libraries, and the whole way is walked with it:
an ONNX file, `brisk build`, `brisk inspect`, `brisk run`. Its row is the table's last, so that the numbers of all other
operators, which the rest of the build was compiled with, stay."""
import pathlib
import re
import shlex
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
EXAMPLE, MADE_UP = "Softsign", "Thirdsign"  # x / (1 + |x|), and x / (3 + |x|)


def section():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    return re.search(r"^## An operator\n(.*?)^## ", text, re.M | re.S).group(1)


def replaced(path, old, new):
    text = (ROOT / path).read_text()
    assert text.count(old) == 1, f"{path}: '{old}' is there {text.count(old)} times"
    return text.replace(old, new)


def edits():
    """Path -> text with the made-up operator, one for each place that the section lists."""
    row = re.search(rf"`(BRISK_OP\({EXAMPLE}, .*\))`", section()).group(1)
    kernel = "src/backend/ref/pointwise.cpp"
    with_case = replaced(kernel, f"    case OpId::k{EXAMPLE}: return x / (1 + std::fabs(x));\n",
                         f"    case OpId::k{EXAMPLE}: return x / (1 + std::fabs(x));\n    case OpId::k{MADE_UP}: return x / (3 + std::fabs(x));\n")
    assert with_case.count(f" k{EXAMPLE},") == 1
    return {
        "src/op/ops_tensor.inc": (ROOT / "src/op/ops_tensor.inc").read_text() + row.replace(EXAMPLE, MADE_UP) + "\n",
        kernel: with_case.replace(f" k{EXAMPLE},", f" k{EXAMPLE}, k{MADE_UP},"),
        "src/import/onnx/lower_pointwise.cpp": replaced("src/import/onnx/lower_pointwise.cpp", f'{{"{EXAMPLE}", direct<k{EXAMPLE}>}}',
                                                        f'{{"{EXAMPLE}", direct<k{EXAMPLE}>}}, {{"{MADE_UP}", direct<k{MADE_UP}>}}'),
    }


def commands(target):
    return subprocess.run(["ninja", "-C", BUILD, "-t", "commands", target], capture_output=True, text=True, check=True).stdout.splitlines()


class Overlay:
    """brisk with some files replaced."""

    def __init__(self, folder):
        self.folder, self.lines = folder, commands("bin/brisk")

    def compiled(self, path, text):
        """The object of a source, with what lies in the folder in front of what lies in the tree."""
        source, out = self.folder / path, self.folder / (path + ".o")
        out.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(text)
        line = next(line for line in self.lines if f"-c {ROOT / path}" in line)
        words = shlex.split(line)
        words[words.index("-o") + 1] = str(out)
        words[words.index("-c") + 1] = str(source)
        for flag in ("-MF", "-MT"):
            if flag in words:
                words[words.index(flag) + 1] = str(out) + ".d"
        first = next(i for i, word in enumerate(words) if word.startswith("-I"))
        words.insert(first, f"-I{self.folder / 'src'}")
        return subprocess.Popen(words, cwd=BUILD, stderr=subprocess.PIPE, text=True), out

    def linked(self, name, objects):
        link = next(line for line in reversed(self.lines) if " -o bin/brisk " in line)
        words = shlex.split(link.split(" && ")[1])  # ": && the linker && :"
        at = words.index("-o")
        words[at + 1] = str(self.folder / name)
        words[at:at] = [str(o) for o in objects]
        subprocess.run(words, cwd=BUILD, check=True, capture_output=True)
        return self.folder / name


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    if not (BUILD / "bin/brisk").exists():
        pytest.fail("build/bin/brisk is missing: tools/build.sh release")
    overlay = Overlay(tmp_path_factory.mktemp("overlay"))
    changed = edits()
    table = overlay.folder / "src/op/ops_tensor.inc"
    table.parent.mkdir(parents=True)
    table.write_text(changed.pop("src/op/ops_tensor.inc"))
    # The table itself is not edited, but is what the row is compiled into.
    jobs = [overlay.compiled(path, text) for path, text in {**changed, "src/op/op.cpp": (ROOT / "src/op/op.cpp").read_text()}.items()]
    for process, out in jobs:
        errors = process.communicate()[1]
        assert process.returncode == 0, f"{out}: {errors[-2000:]}"
    kernel, lowering, rows = (out for _, out in jobs)
    return overlay, kernel, lowering, rows


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 5])
    for name, ops in (("model", [(MADE_UP, "x", "h"), ("Exp", "h", "y")]), ("alone", [(MADE_UP, "x", "y")])):
        graph = helper.make_graph([helper.make_node(op, [a], [b]) for op, a, b in ops], "g", [value("x")], [value("y")])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), str(folder / f"{name}.onnx"))
    np.savez(folder / "in.npz", x=np.arange(-5, 5, dtype=np.float32).reshape(2, 5))
    return folder


def brisk(binary, *arguments):
    return subprocess.run([binary, *arguments], capture_output=True, text=True, timeout=60)


def test_the_listed_places_are_enough(built, model):
    overlay, kernel, lowering, rows = built
    binary = overlay.linked("brisk", [kernel, lowering, rows])
    engine, results = model / "m.engine", model / "out.npz"
    assert (done := brisk(binary, "build", model / "model.onnx", "-o", engine)).returncode == 0, done.stderr
    assert (done := brisk(binary, "inspect", engine)).returncode == 0, done.stderr
    assert (done := brisk(binary, "run", engine, "--inputs", model / "in.npz", "--outputs", results)).returncode == 0, done.stderr
    x = np.load(model / "in.npz")["x"]
    np.testing.assert_allclose(np.load(results)["y"], np.exp(x / (3 + np.abs(x))), rtol=1e-6)


def test_a_place_left_out_is_missed(built, model):
    overlay, kernel, lowering, rows = built
    without_kernel = overlay.linked("without_kernel", [lowering, rows])
    done = brisk(without_kernel, "run", model / "alone.onnx", "--inputs", model / "in.npz")
    assert done.returncode == 3 and MADE_UP in done.stderr, done.stderr
    without_lowering = overlay.linked("without_lowering", [kernel, rows])
    done = brisk(without_lowering, "run", model / "model.onnx", "--inputs", model / "in.npz")
    assert done.returncode == 3 and MADE_UP in done.stderr, done.stderr


def test_only_listed_places_are_edited():
    listed = section()
    for path in edits():
        folder, name = path.rsplit("/", 1)
        assert f"`{folder}`" in listed or f"`{path}`" in listed or (f"`{name}`" in listed and folder in listed), f"CONTRIBUTING.md does not name {path}"
    assert "`tests/unit`" in listed
