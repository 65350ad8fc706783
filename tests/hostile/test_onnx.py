"""ONNX files that lie or ask for too much, through the command line: refused with exit 2 or 3 and a message that names node
index, name, operator and opset, or, where the lie does not matter, taken for what they are."""
import pathlib
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from test_files import Done, build, expect_refused, idle_bytes  # noqa: E402, F401

F32, I64 = TensorProto.FLOAT, TensorProto.INT64


def value(name, shape=("n", 4), kind=F32):
    return helper.make_tensor_value_info(name, kind, shape)


def constant(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def model(nodes, outputs=("y",), inputs=None, initializers=(), opsets=(("", 17),), functions=()):
    graph = helper.make_graph(nodes, "g", [value("x")] if inputs is None else inputs,
                              [o if not isinstance(o, str) else value(o, None) for o in outputs], list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(*o) for o in opsets], functions=list(functions), ir_version=10)


def node(op, inputs, outputs, name=None, **attributes):
    return helper.make_node(op, inputs, outputs, name=f"the_{op}" if name is None else name, **attributes)


def external(location, offset=0, length=16):
    t = TensorProto(name="w", data_type=F32, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, text in (("location", location), ("offset", str(offset)), ("length", str(length))):
        t.external_data.add(key=key, value=text)
    return model([node("Add", ["x", "w"], ["y"])], initializers=[t])


def raw(dims, data=b"\0" * 16, kind=F32):
    return model([node("Add", ["x", "w"], ["y"])], initializers=[TensorProto(name="w", data_type=kind, dims=dims, raw_data=data)])


def branch(name, nodes, output):
    return helper.make_graph(nodes, name, [], [value(output, None)])


def calls_itself():
    f = helper.make_function("local", "F", ["a"], ["b"], [helper.make_node("F", ["a"], ["b"], domain="local")], [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)])
    return model([helper.make_node("F", ["x"], ["y"], name="the_F", domain="local")], opsets=(("", 17), ("local", 1)), functions=[f])


ADD = node("Add", ["x", "x"], ["y"])
REFUSED = {
    "a cycle": (model([node("Add", ["x", "b"], ["a"]), node("Neg", ["a"], ["b"], "back")], ["b"]), ["node 0", "the_Add", "cycle"]),
    "a node that reads itself": (model([node("Add", ["x", "y"], ["y"])]), ["node 0", "the_Add", "cycle"]),
    "an initialiser that is missing": (model([node("Add", ["x", "w"], ["y"])]), ["node 0", "the_Add", "Add, opset 17", "'w'", "never defined"]),
    "an output that nothing makes": (model([ADD], ["z"]), ["'z'"]),
    "one name made twice": (model([ADD, node("Neg", ["x"], ["y"])]), ["'y'", "0", "1"]),
    "two inputs of one name": (model([ADD], inputs=[value("x"), value("x")]), ["two inputs named 'x'"]),
    "two initialisers of one name": (model([node("Add", ["x", "w"], ["y"])], initializers=[constant("w", np.ones(4, "f")), constant("w", np.ones(4, "f"))]), ["two initialisers named 'w'"]),
    "a node that makes an input": (model([node("Neg", ["x"], ["x"], "again")], ["x"]), ["again"]),
    "shapes that do not meet": (model([node("Add", ["x", "w"], ["y"])], initializers=[constant("w", np.ones(5, "f"))]), ["node 0", "the_Add", "opset 17", "4", "5"]),
    "a product of wrong ranks": (model([node("Gemm", ["x", "w"], ["y"])], initializers=[constant("w", np.ones((4, 2, 2), "f"))]), ["node 0", "the_Gemm", "opset 17"]),
    "a convolution of a matrix": (model([node("Conv", ["x", "w"], ["y"])], initializers=[constant("w", np.ones((1, 1, 3, 3), "f"))]), ["node 0", "the_Conv", "opset 17"]),
    "strides of 0": (model([node("MaxPool", ["x"], ["y"], kernel_shape=[2], strides=[0])], inputs=[value("x", (1, 1, 8))]), ["node 0", "the_MaxPool", "opset 17"]),
    "strides below 0": (model([node("MaxPool", ["x"], ["y"], kernel_shape=[2], strides=[-1])], inputs=[value("x", (1, 1, 8))]), ["node 0", "the_MaxPool"]),
    "a kernel of 2^40": (model([node("AveragePool", ["x"], ["y"], kernel_shape=[1 << 40])], inputs=[value("x", (1, 1, 8))]), ["node 0", "the_AveragePool"]),
    "pads below 0 that leave nothing": (model([node("Pad", ["x", "p"], ["y"])], initializers=[constant("p", np.array([0, -9, 0, 0]))]), ["node 0", "the_Pad"]),
    "a reshape to another number": (model([node("Reshape", ["x", "s"], ["y"])], inputs=[value("x", (2, 4))], initializers=[constant("s", np.array([3, 3]))]), ["node 0", "the_Reshape", "opset 17"]),
    "a reshape to a negative size": (model([node("Reshape", ["x", "s"], ["y"])], inputs=[value("x", (2, 4))], initializers=[constant("s", np.array([-2, 4]))]), ["node 0", "the_Reshape"]),
    "an axis outside the rank": (model([node("Softmax", ["x"], ["y"], axis=5)]), ["node 0", "the_Softmax", "5"]),
    "a permutation that is none": (model([node("Transpose", ["x"], ["y"], perm=[0, 0])]), ["node 0", "the_Transpose"]),
    "a split into negative parts": (model([node("Split", ["x", "s"], ["y", "z"], axis=1)], initializers=[constant("s", np.array([-1, 5]))]), ["node 0", "the_Split"]),
    "too few operands": (model([node("Gemm", ["x"], ["y"])]), ["node 0", "the_Gemm"]),
    "operands of two types": (model([node("Add", ["x", "w"], ["y"])], initializers=[constant("w", np.ones(4, np.int64))]), ["node 0", "the_Add"]),
    "a tensor of negative size": (raw([-4]), ["'w'"]),
    "a tensor whose size wraps": (raw([1 << 32, 1 << 32]), ["'w'"]),
    "a tensor of 2^62 elements": (raw([1 << 62]), ["'w'"]),
    "a tensor of more than its data": (raw([1 << 20]), ["'w'"]),
    "a tensor of forty axes": (raw([1] * 40, b"\0" * 4), ["'w'"]),
    "a tensor of an unknown type": (raw([4], kind=77), ["'w'"]),
    "data outside the folder": (external("../secret"), ["'w'", "external data"]),
    "data at an absolute place": (external("/etc/passwd"), ["'w'", "external data"]),
    "data through a link": (external("link"), ["'w'", "external data"]),
    "data that is not there": (external("nothing.bin"), ["nothing.bin"]),
    "data past the end": (external("data.bin", 8), ["'w'"]),
    "data at a negative place": (external("data.bin", -16), ["'w'"]),
    "data at 2^64 - 8": (external("data.bin", (1 << 64) - 8), ["'w'"]),
    "data of a length that is no number": (external("data.bin", 0, "lots"), ["'w'"]),
    "an opset of the far future": (model([ADD], opsets=(("", 999),)), ["opset 999"]),
    "an opset below 1": (model([ADD], opsets=(("", -3),)), ["opset"]),
    "a domain nobody knows": (model([helper.make_node("Magic", ["x"], ["y"], name="the_Magic", domain="org.example")], opsets=(("", 17), ("org.example", 3))), ["node 0", "the_Magic", "org.example::Magic", "opset 3"]),
    "a domain that is not imported": (model([helper.make_node("Magic", ["x"], ["y"], name="the_Magic", domain="org.example")]), ["node 0", "the_Magic", "not imported"]),
    "an operator nobody knows": (model([node("Magic", ["x"], ["y"])]), ["node 0", "the_Magic", "opset 17"]),
    "a function that calls itself": (calls_itself(), ["the_F"]),
    "a branch whose result is not made": (model([node("If", ["c"], ["y"], then_branch=branch("t", [], "no"), else_branch=branch("e", [ADD], "y"))], inputs=[value("x"), value("c", (), TensorProto.BOOL)]), ["'no'"]),
    "a sequence as input": (model([node("SequenceAt", ["x", "i"], ["y"])], inputs=[helper.make_tensor_sequence_value_info("x", F32, None)], initializers=[constant("i", np.int64(0))]), ["'x'"]),
}


@pytest.fixture
def place(tmp_path):
    """A folder with a data file of 16 bytes, a link out of it, and a file outside that nobody may read."""
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(b"\1" * 64)
    (folder / "data.bin").write_bytes(b"\0" * 16)
    (folder / "link").symlink_to(tmp_path / "secret")
    return folder / "model.onnx"


@pytest.mark.parametrize("name", REFUSED)
def test_refused(build, place, name):  # noqa: F811
    m, words = REFUSED[name]
    place.write_bytes(m.SerializeToString())
    expect_refused(build(place), "model.onnx", *words)


def test_all_unsupported_nodes_at_once(build, place):  # noqa: F811
    nodes = [node("Magic", ["x"], ["a"], "first"), node("Neg", ["a"], ["b"], "fine"), node("Wonder", ["b"], ["c"], "second"),
             helper.make_node("Trick", ["c"], ["y"], name="third", domain="org.example")]
    place.write_bytes(model(nodes, opsets=(("", 17), ("org.example", 2))).SerializeToString())
    done = build(place)
    assert done.code == 3
    expect_refused(done, "3 nodes", "node 0 'first' (Magic, opset 17)", "node 2 'second' (Wonder, opset 17)", "node 3 'third' (org.example::Trick, opset 2)")
    assert "fine" not in done.text


@pytest.mark.parametrize("size", [1 << 31, (1 << 31) + 4096])
def test_protobuf_ends_at_2_gib(build, place, size):  # noqa: F811
    with open(place, "wb") as f:
        f.truncate(size)
    expect_refused(build(place), "2 GiB", "external data")


def test_an_import_that_no_node_uses_is_fine(build, place):  # noqa: F811
    place.write_bytes(model([ADD], opsets=(("", 17), ("org.example", 99), ("ai.onnx.ml", 1234))).SerializeToString())
    done = build(place)
    assert done.code == 0, done.text


@pytest.mark.parametrize("declared", [[7, 7, 7], [-1, -5], [1 << 62], []])
def test_declared_result_shapes_are_never_trusted(build, place, tmp_path, declared):  # noqa: F811
    m = model([node("Neg", ["x"], ["t"]), node("Exp", ["t"], ["y"])], [value("y", declared)])
    m.graph.value_info.append(value("t", declared))
    place.write_bytes(m.SerializeToString())
    done = build(place)
    assert done.code == 0, done.text
    x = np.arange(8, dtype=np.float32).reshape(2, 4) / 8
    np.savez(tmp_path / "in.npz", x=x)
    ran = Done(["run", tmp_path / "out.engine", "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "y.npz"])
    assert ran.code == 0, ran.text
    np.testing.assert_allclose(np.load(tmp_path / "y.npz")["y"], np.exp(-x), rtol=1e-6)


HUGE = {
    "an expansion to 2^50": ("Expand", [1 << 25, 1 << 25]), "a constant of 2^40": ("ConstantOfShape", [1 << 40]),
    "a constant of 2^62": ("ConstantOfShape", [1 << 31, 1 << 31]), "a tiling of 2^40": ("Tile", [1 << 40]),
}


@pytest.mark.parametrize("name", HUGE)
def test_what_would_not_fit_is_not_folded(build, place, tmp_path, name):  # noqa: F811
    """A few bytes that ask for terabytes: an error at build or at the call, never the memory."""
    op, sizes = HUGE[name]
    first = {"Expand": ["one", "s"], "Tile": ["one", "s"], "ConstantOfShape": ["s"]}[op]
    nodes = [node(op, first, ["big"]), node("ReduceSum", ["big"], ["sum"], keepdims=0), node("Add", ["x", "sum"], ["y"])]
    one = constant("one", np.ones(1, "f") if op == "Tile" else np.float32(1))
    place.write_bytes(model(nodes, initializers=[one, constant("s", np.array(sizes))]).SerializeToString())
    done = build(place)
    if done.code == 0:
        np.savez(tmp_path / "in.npz", x=np.ones((1, 4), "f"))
        done = Done(["run", tmp_path / "out.engine", "--inputs", tmp_path / "in.npz", "--memory", "1G"])
    assert done.code in (1, 2, 3), done.text


def test_a_loop_without_end_is_not_run_by_the_build(build, place):  # noqa: F811
    body = helper.make_graph([helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Add", ["s", "s"], ["t"])], "body",
                             [value("i", (), I64), value("go", (), TensorProto.BOOL), value("s", ())], [value("on", (), TensorProto.BOOL), value("t", ())])
    nodes = [node("Loop", ["n", "c", "one"], ["s"], body=body), node("Add", ["x", "s"], ["y"])]
    place.write_bytes(model(nodes, initializers=[constant("n", np.int64((1 << 62))), constant("c", np.bool_(True)), constant("one", np.float32(1))]).SerializeToString())
    done = build(place)
    assert done.code in (0, 2, 3), done.text
