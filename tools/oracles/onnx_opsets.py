#!/usr/bin/env python3
"""Single nodes as the opsets of former years define them, with onnxruntime's outputs: tests/data/onnx_opsets.tar.xz, which
tests/onnx/opsets.py runs. Each case twice: with its sizes declared, and with a name for each of them.

usage: tools/oracles/onnx_opsets.py [OUT.tar.xz]      (needs numpy, onnx, onnxruntime)
"""
import io
import pathlib
import sys
import tarfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto as T
from onnx import helper as h

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/data/onnx_opsets.tar.xz"
rng = np.random.default_rng(7)


def f(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def i(*values):
    return np.array(values, np.int64)


def graph(nodes, inputs, outputs, name="body"):
    return h.make_graph(nodes, name, inputs, outputs)


def scalar(name, kind=T.FLOAT, shape=()):
    return h.make_tensor_value_info(name, kind, shape)


CASES = []


def case(op, opset, inputs, outputs=1, fixed=(), label="", **attrs):
    """inputs: arrays, None where absent; fixed: those that are initialisers."""
    CASES.append((f"{op}-{opset}{'-' + label if label else ''}", op, opset, inputs, outputs, fixed, attrs))


x234, x44 = f(2, 3, 4), f(1, 2, 4, 4)

# --- what changed its meaning -------------------------------------------------------------------------------------------
for op in ("Softmax", "LogSoftmax", "Hardmax"):
    for opset in (7, 11, 12, 13):
        case(op, opset, [x234], label="default")
        case(op, opset, [x234], label="axis0", axis=0)
        if opset > 7:
            case(op, opset, [x234], label="negative", axis=-2)
case("Pad", 7, [x234], pads=[0, 1, 2, 1, 0, 0], mode="constant", value=1.5)
case("Pad", 10, [x234], pads=[0, 1, 2, 0, 0, 1], mode="reflect")
case("Pad", 7, [x234], label="negative", pads=[0, -1, 2, 1, 0, -2], mode="edge")
case("Pad", 11, [x234, i(0, 1, 2, 1, 0, 0), np.float32(3)], fixed=(1,))
case("Pad", 13, [x234, i(0, 1, 0, 1, 1, 0)], mode="edge")
case("Pad", 18, [x234, i(1, 2, 0, 1), None, i(-1, 0)], label="axes", fixed=(1, 3))
case("Pad", 19, [x234, i(0, 2, 1, 0, 2, 3)], label="wrap", fixed=(1,), mode="wrap")
case("Slice", 7, [x234], starts=[0, -3], ends=[1, 1000], axes=[0, 2])
case("Slice", 9, [x234], label="noaxes", starts=[1, 0, 1], ends=[2, -1, 3])
case("Slice", 10, [x234, i(-1, 0), i(-4, 9), i(2, 1), i(-2, 2)], fixed=(1, 2, 3, 4))
case("Slice", 11, [x234, i(0), i(2), i(-1)], label="run", fixed=())
case("Squeeze", 7, [f(1, 3, 1, 2)], axes=[0])
case("Squeeze", 11, [f(1, 3, 1, 2)], axes=[-2])
case("Squeeze", 12, [f(1, 3, 1, 2)], label="all")
case("Squeeze", 13, [f(1, 3, 1, 2), i(-2)], fixed=(1,))
case("Unsqueeze", 7, [x234], axes=[0, 3])
case("Unsqueeze", 11, [x234], axes=[-1, 0])
case("Unsqueeze", 13, [x234, i(1, -1)], fixed=(1,))
case("Upsample", 7, [x44], mode="nearest", scales=[1.0, 1.0, 2.0, 3.0])
case("Upsample", 7, [x44], label="linear", mode="linear", scales=[1.0, 1.0, 2.0, 1.5])
case("Upsample", 9, [x44, np.array([1, 1, 2, 1.5], np.float32)], fixed=(1,), mode="nearest")
case("Upsample", 9, [x44, np.array([1, 1, 2, 2], np.float32)], label="linear", fixed=(1,), mode="linear")
for mode in ("nearest", "linear"):
    case("Resize", 10, [x44, np.array([1, 1, 1.5, 2.5], np.float32)], label=mode, fixed=(1,), mode=mode)
    case("Resize", 10, [f(1, 1, 6, 6), np.array([1, 1, 0.5, 0.6], np.float32)], label=mode + "-down", fixed=(1,), mode=mode)
none = np.array([], np.float32)
for mode in ("nearest", "linear", "cubic"):
    for place in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"):
        case("Resize", 11, [x44, none, np.array([1, 1, 1.5, 2], np.float32)], label=f"{mode}-{place}", fixed=(1, 2), mode=mode,
             coordinate_transformation_mode=place)
case("Resize", 11, [x44, none, none, i(1, 2, 3, 7)], label="sizes", fixed=(1, 2, 3), mode="linear")
case("Resize", 11, [x44, np.array([0, 0, .2, .1, 1, 1, .9, .7], np.float32), none, i(1, 2, 3, 3)], label="crop", fixed=(1, 2, 3),
     mode="linear", coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=9.0)
case("Resize", 11, [x44, none, np.array([1, 1, .6, .7], np.float32)], label="ceil", fixed=(1, 2), mode="nearest", nearest_mode="ceil",
     coordinate_transformation_mode="half_pixel")
case("Resize", 13, [x44, None, None, i(1, 2, 8, 3)], fixed=(3,), mode="nearest", nearest_mode="floor")
case("Resize", 18, [x44, None, None, i(6, 7)], label="axes", fixed=(3,), mode="linear", axes=[3, 2])
case("Resize", 18, [f(1, 1, 8, 8), None, np.array([.5, .4], np.float32)], label="antialias", fixed=(2,), mode="linear", axes=[2, 3], antialias=1)
case("Resize", 19, [x44, None, None, i(5, 9)], label="not_larger", fixed=(3,), mode="linear", axes=[2, 3], keep_aspect_ratio_policy="not_larger")
case("Clip", 7, [x234], min=-0.5, max=0.25)
case("Clip", 10, [x234], label="min", min=0.1)
case("Clip", 11, [x234, None, np.float32(0.1)], fixed=(2,))
case("Clip", 12, [np.arange(-5, 5, dtype=np.int8), np.int8(-2), np.int8(3)], label="int8", fixed=(1,))
case("Dropout", 7, [x234], ratio=0.7)
case("Dropout", 10, [x234], ratio=0.7)
case("Dropout", 12, [x234, np.float32(0.3)], fixed=(1,))
case("Dropout", 13, [x234, np.float32(0.3), np.bool_(False)], outputs=2, fixed=(1, 2))
per = [f(2), f(2), f(2), np.abs(f(2)) + 0.5]
case("BatchNormalization", 7, [x44, *per], fixed=(1, 2, 3, 4), epsilon=1e-3)
case("BatchNormalization", 9, [x44, *per])
case("BatchNormalization", 14, [x44, *per], fixed=(1, 2, 3, 4), epsilon=1e-2)
case("TopK", 7, [f(3, 6)], outputs=2, k=2, axis=0)
case("TopK", 10, [f(3, 6), i(3)], outputs=2, fixed=(1,))
case("TopK", 11, [f(3, 6), i(4)], outputs=2, largest=0, axis=-1)
for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"):
    x = np.abs(x234) + np.float32(0.1)
    case(op, 7, [x], axes=[1], keepdims=0)
    case(op, 11, [x], axes=[-1, 0])
    case(op, 12, [x], label="all")
    case(op, 13 if op == "ReduceSum" else 18, [x, i(-1)], fixed=(1,), keepdims=0)
    case(op, 13 if op == "ReduceSum" else 18, [x], label="noop", noop_with_empty_axes=1)
case("ReduceSum", 13, [x234, i(0, 2)], label="run")
case("ReduceMax", 20, [np.array([[True, False], [False, False]]), i(1)], label="bool", fixed=(1,))
case("Gemm", 7, [f(3, 4), f(5, 4), f(5)], transB=1, alpha=0.5, beta=2.0)
case("Gemm", 9, [f(4, 3), f(4, 5), f(3, 1)], transA=1)
case("Gemm", 11, [f(3, 4), f(4, 5)], label="noc")
case("Cast", 7, [np.array([1.7, -2.3, 0, 300.5], np.float32)], to=T.INT32)
case("Cast", 9, [np.array([0, 2, -1], np.int64)], to=T.BOOL)
case("Cast", 13, [f(5)], to=T.BFLOAT16, label="bf16")
case("Cast", 6, [np.array([1.25, -2.5], np.float64)], to=T.FLOAT16)
for op, n in (("MaxPool", 7), ("MaxPool", 8), ("MaxPool", 10), ("MaxPool", 11), ("MaxPool", 12), ("AveragePool", 7), ("AveragePool", 10), ("AveragePool", 11), ("AveragePool", 19)):
    extra = dict(ceil_mode=1) if n >= 10 else {}
    if op == "MaxPool" and n >= 10 or n == 19:
        extra["dilations"] = [2, 1]
    if op == "AveragePool":
        extra["count_include_pad"] = 1
    case(op, n, [f(1, 2, 7, 6)], kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1], **extra)
case("MaxPool", 8, [f(1, 2, 5, 5)], label="indices", outputs=2, kernel_shape=[2, 2], strides=[2, 2], storage_order=0)
case("MaxPool", 11, [f(1, 2, 5, 5)], label="column", outputs=2, kernel_shape=[2, 2], strides=[2, 2], storage_order=1)
for pad in ("SAME_UPPER", "SAME_LOWER", "VALID"):
    case("MaxPool", 7, [f(1, 1, 5, 6)], label=pad, kernel_shape=[2, 3], strides=[2, 2], auto_pad=pad)
    case("AveragePool", 7, [f(1, 1, 5, 6)], label=pad, kernel_shape=[2, 3], strides=[2, 2], auto_pad=pad)
    case("Conv", 7, [f(1, 1, 5, 6), f(2, 1, 2, 3)], label=pad, fixed=(1,), strides=[2, 2], auto_pad=pad)
    case("ConvTranspose", 7, [f(1, 1, 4, 3), f(1, 2, 3, 3)], label=pad, fixed=(1,), strides=[2, 2], auto_pad=pad)
case("ConvTranspose", 11, [f(1, 1, 4, 3), f(1, 2, 3, 3)], label="shape", fixed=(1,), strides=[3, 2], output_shape=[11, 8])
case("ConvTranspose", 11, [f(1, 2, 4, 3), f(2, 2, 3, 3), f(4)], label="group", fixed=(1, 2), group=2, strides=[2, 2], output_padding=[1, 0], dilations=[2, 1])
case("LpPool", 7, [f(1, 2, 6, 5)], kernel_shape=[2, 3], p=3)
case("LpPool", 18, [f(1, 2, 6, 5)], kernel_shape=[2, 2], ceil_mode=1, strides=[2, 2])
case("GlobalLpPool", 7, [f(1, 2, 3, 4)], p=3)
case("OneHot", 9, [i(0, 2, -1), i(3), np.array([0.5, 2], np.float32)], fixed=(1,))
case("OneHot", 11, [i(0, -2, 5), np.int64(4), np.array([0, 1], np.int64)], label="axis", axis=0)
case("Split", 7, [f(2, 6)], outputs=2, axis=1, split=[2, 4])
case("Split", 11, [f(6, 2)], outputs=3, axis=0)
case("Split", 13, [f(2, 6), i(1, 5)], outputs=2, axis=-1)
case("Split", 18, [f(2, 5)], outputs=2, axis=1, num_outputs=2)
case("Flatten", 7, [x234], axis=2)
case("Flatten", 11, [x234], axis=-2)
case("Reshape", 7, [x234, i(0, -1)])
case("Reshape", 14, [x234, i(4, -1, 3)], fixed=(1,), allowzero=1)
case("ArgMax", 7, [x234], axis=1, keepdims=0)
case("ArgMin", 12, [np.array([[3, 1, 1], [2, 2, 0]], np.float32)], axis=-1, select_last_index=1)
case("PRelu", 7, [x234, f(3, 1)])
case("PRelu", 9, [x234, f(4)], fixed=(1,))
case("Gather", 7, [x234, i(1, 0)], axis=2)
case("Gather", 11, [x234, i(-1, 0)], axis=1)
case("Scatter", 9, [f(3, 3), i(1, 0, 2).reshape(1, 3), f(1, 3)], axis=0)
case("ScatterElements", 11, [f(3, 3), i(-1, 0, 2).reshape(1, 3), f(1, 3)])
case("ScatterElements", 16, [f(3, 3), i(1, 1, 1).reshape(3, 1), f(3, 1)], axis=1, reduction="add")
case("ScatterND", 11, [f(4, 2), i(1, 3).reshape(2, 1), f(2, 2)])
case("ScatterND", 18, [f(4, 2), i(1, 1).reshape(2, 1), f(2, 2)], reduction="max")
case("GatherND", 11, [x234, i(0, 1, 1, 2).reshape(2, 2)])
case("GatherND", 12, [x234, i(1, 2).reshape(2, 1)], batch_dims=1)
case("Pow", 7, [np.abs(x234), f(4)])
case("Pow", 12, [np.array([2, 3], np.int32), np.array([2.0, 3], np.float32)])
case("Mod", 10, [np.array([5, -5, 7], np.int32), np.array([3, 3, -4], np.int32)])
case("Mod", 10, [f(5), f(5)], label="fmod", fmod=1)
case("Max", 8, [f(3, 1), f(4), f(1)])
case("Min", 12, [np.array([1, 5], np.int64), np.array([3, 3], np.int64)])
case("Mean", 8, [f(2, 3), f(3)])
case("Sum", 8, [f(2, 3), f(3), f(2, 1)])
case("CumSum", 11, [x234, np.int32(-1)], exclusive=1, reverse=1)
case("DepthToSpace", 7, [f(1, 8, 2, 3)], blocksize=2)
case("DepthToSpace", 11, [f(1, 8, 2, 3)], label="crd", blocksize=2, mode="CRD")
case("SpaceToDepth", 7, [f(1, 2, 4, 6)], blocksize=2)
case("InstanceNormalization", 7, [x44, f(2), f(2)], fixed=(1, 2))
case("LRN", 7, [f(1, 6, 3, 3)], size=3, alpha=0.1)
case("LpNormalization", 7, [x234], axis=1, p=1)
case("MeanVarianceNormalization", 9, [f(2, 3, 2, 2)])
case("EyeLike", 9, [f(3, 4)], k=1, dtype=T.INT32)
case("Tile", 7, [f(2, 3), i(2, 1)])
case("Expand", 8, [f(3, 1), i(2, 1, 4)])
case("Compress", 9, [f(3, 4), np.array([True, False, True])], axis=0)
case("Compress", 11, [f(3, 2), np.array([False, True, True])], label="flat")
case("NonZero", 9, [np.array([[1, 0], [2, 3]], np.float32)])
case("IsInf", 10, [np.array([np.inf, -np.inf, 1], np.float32)], detect_negative=0)
case("Where", 9, [np.array([True, False, True]), f(2, 3), f(3)])
case("Shrink", 9, [f(6)], lambd=0.3, bias=0.1)
case("ConstantOfShape", 9, [i(2, 3)], value=h.make_tensor("v", T.INT64, [1], [7]))
case("ReverseSequence", 10, [f(4, 2, 3), i(3, 1)], batch_axis=1, time_axis=0)
case("QuantizeLinear", 10, [f(2, 3), np.float32(0.02), np.uint8(128)], fixed=(1, 2))
case("DequantizeLinear", 10, [np.arange(6, dtype=np.int8).reshape(2, 3), np.float32(0.1), np.int8(2)])
case("QuantizeLinear", 13, [f(2, 3), np.array([0.02, 0.1, 0.3], np.float32), np.array([0, 1, -3], np.int8)], axis=-1)
case("QLinearMatMul", 10, [np.arange(6, dtype=np.uint8).reshape(2, 3), np.float32(0.1), np.uint8(3), np.arange(6, dtype=np.uint8).reshape(3, 2), np.float32(0.2), np.uint8(1), np.float32(0.05), np.uint8(9)], fixed=(1, 2, 4, 5, 6, 7))
case("QLinearConv", 10, [np.arange(16, dtype=np.uint8).reshape(1, 1, 4, 4), np.float32(0.1), np.uint8(3), np.arange(4, dtype=np.uint8).reshape(1, 1, 2, 2), np.float32(0.2), np.uint8(1), np.float32(0.5), np.uint8(9)], fixed=(1, 2, 3, 4, 5, 6, 7))
case("MatMulInteger", 10, [np.arange(6, dtype=np.uint8).reshape(2, 3), np.arange(6, dtype=np.int8).reshape(3, 2), np.uint8(2)])
case("NegativeLogLikelihoodLoss", 12, [f(3, 4), i(0, 3, 1)], reduction="sum")
case("Einsum", 12, [f(2, 3), f(3, 4)], equation="ij,jk->ki")
case("Celu", 12, [f(5)], alpha=0.5)
case("GroupNormalization", 18, [f(2, 4, 3), f(2), f(2)], num_groups=2)
case("GroupNormalization", 21, [f(2, 4, 3), f(4), f(4)], num_groups=2)
case("LayerNormalization", 17, [x234, f(3, 4), f(3, 4)], axis=-2)
case("Gelu", 20, [f(5)], approximate="tanh")
case("AffineGrid", 20, [f(1, 2, 3), i(1, 1, 3, 2)], align_corners=1)
case("CenterCropPad", 18, [f(5, 3, 4), i(2, 6)], fixed=(1,), axes=[-3, -1])
for n, rest in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
    x, w, r, b = f(3, 2, 4), f(1, rest * 5, 4), f(1, rest * 5, 5), f(1, 2 * rest * 5)
    outs = 3 if n == "LSTM" else 2
    case(n, 7, [x, w, r, b], outputs=outs, fixed=(1, 2, 3), hidden_size=5)
    case(n, 7, [x, f(2, rest * 5, 4), f(2, rest * 5, 5), f(2, 2 * rest * 5), np.array([3, 1], np.int32), f(2, 2, 5)], label="bidirectional", outputs=outs, fixed=(1, 2, 3),
         hidden_size=5, direction="bidirectional", clip=0.8)
    case(n, 14, [x, w, r, None, None, f(1, 2, 5)], label="reverse", outputs=outs, fixed=(1, 2), hidden_size=5, direction="reverse")
case("GRU", 7, [f(3, 2, 4), f(1, 15, 4), f(1, 15, 5), f(1, 30)], label="linear", outputs=2, fixed=(1, 2, 3), hidden_size=5, linear_before_reset=1, activations=["HardSigmoid", "Softsign"])
case("LSTM", 7, [f(3, 2, 4), f(1, 20, 4), f(1, 20, 5), None, None, None, f(1, 2, 5), f(1, 15)], label="peepholes", outputs=3, fixed=(1, 2, 7), hidden_size=5)

# --- boxes, sampling, selection -------------------------------------------------------------------------------------------
boxes, scores = np.abs(f(2, 12, 4)), f(2, 3, 12)
boxes[..., 2:] += boxes[..., :2]
case("NonMaxSuppression", 10, [boxes, scores, i(4), np.array([.3], np.float32), np.array([-.5], np.float32)], fixed=(2, 3, 4))
case("NonMaxSuppression", 11, [boxes, scores, np.int64(3), np.float32(0.4)], label="centred", center_point_box=1)
for mode, dim in (("bilinear", 2), ("nearest", 2), ("bicubic", 2), ("linear", 3), ("nearest", 3)):
    for padding in ("zeros", "border", "reflection"):
        for corners in (0, 1):
            spatial = (4, 5) if dim == 2 else (3, 4, 3)
            case("GridSample", 16 if dim == 2 else 20, [f(1, 2, *spatial), (f(1, *([3] * dim), dim) * 1.2).astype(np.float32)],
                 label=f"{mode}-{padding}-{corners}", mode=mode, padding_mode=padding, align_corners=corners)
rois = np.array([[0, 0, 5, 5], [1.3, 2.1, 4.2, 6.9], [-2, 3, 9, 12]], np.float32)
for opset in (10, 16, 22):
    case("RoiAlign", opset, [f(2, 2, 7, 8), rois, i(0, 1, 1)], output_height=2, output_width=3, spatial_scale=0.8)
    case("RoiAlign", opset, [f(2, 2, 7, 8), rois, i(0, 1, 1)], label="ratio", output_height=2, output_width=2, sampling_ratio=2)
case("RoiAlign", 16, [f(2, 2, 7, 8), rois, i(0, 1, 1)], label="half_pixel", output_height=2, output_width=2, coordinate_transformation_mode="half_pixel")
case("MaxRoiPool", 7, [f(2, 2, 7, 8), np.array([[0, 0, 0, 5, 5], [1, 1.4, 2.5, 4, 6.6], [1, -3, 3, 12, 20]], np.float32)], pooled_shape=[2, 3], spatial_scale=0.8)
case("Unique", 11, [np.array([2., 1, 1, 3, 4, 3], np.float32)], outputs=4)
case("Unique", 11, [np.array([[5, 1], [2, 2], [5, 1]], np.int64)], label="axis", outputs=4, axis=0, sorted=0)
case("MaxUnpool", 9, [f(1, 1, 2, 2), i(5, 7, 13, 15).reshape(1, 1, 2, 2)], kernel_shape=[2, 2], strides=[2, 2])
case("MaxUnpool", 11, [f(1, 2, 2), i(1, 2, 7, 9).reshape(1, 2, 2)], label="pads", kernel_shape=[3], strides=[2], pads=[0, 0])
case("Det", 11, [f(2, 3, 3)])
case("DeformConv", 19, [f(1, 2, 4, 4), f(2, 1, 2, 2), f(1, 16, 3, 3), f(2), f(1, 8, 3, 3)], fixed=(1, 3), group=2, offset_group=2)
case("Col2Im", 18, [f(1, 4, 6), i(3, 4), i(2, 2)], fixed=(1, 2))
case("TfIdfVectorizer", 9, [np.array([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8]], np.int32)], mode="TFIDF", min_gram_length=1, max_gram_length=2, max_skip_count=5,
     ngram_counts=[0, 4], ngram_indexes=[0, 1, 2, 3, 4, 5, 6], pool_int64s=[2, 3, 5, 4, 5, 6, 7, 8, 6, 7], weights=[1.5, 2, 1, 1, 1, .5, 2])

# --- bodies ---------------------------------------------------------------------------------------------------------------
adds = graph([h.make_node("Add", ["s", "e"], ["t"]), h.make_node("Identity", ["t"], ["u"])],
             [scalar("s", shape=(2,)), scalar("e", shape=(2,))], [scalar("t", shape=(2,)), scalar("u", shape=(2,))])
case("Scan", 8, [None, f(2, 2), f(2, 3, 2)], outputs=2, body=adds, num_scan_inputs=1)
case("Scan", 8, [None, f(2, 2), f(2, 3, 2)], label="reverse", outputs=2, body=adds, num_scan_inputs=1, directions=[1])
case("Scan", 9, [f(2), f(3, 2)], outputs=2, body=adds, num_scan_inputs=1)
case("Scan", 11, [f(2), f(2, 3)], label="axes", outputs=2, body=adds, num_scan_inputs=1, scan_input_axes=[-1], scan_output_axes=[1], scan_input_directions=[1], scan_output_directions=[1])
steps = graph([h.make_node("Add", ["s", "s"], ["t"]), h.make_node("Identity", ["c"], ["d"]), h.make_node("Identity", ["t"], ["u"])],
              [scalar("n", T.INT64), scalar("c", T.BOOL), scalar("s", shape=(2,))], [scalar("d", T.BOOL), scalar("t", shape=(2,)), scalar("u", shape=(2,))])
for opset in (7, 11, 13, 16):
    case("Loop", opset, [np.int64(3), np.bool_(True), f(2)], outputs=2, body=steps)
case("Loop", 11, [np.int64(0), None, f(2)], label="never", outputs=2, body=steps)


def model(op, opset, inputs, outputs, fixed, attrs, named):
    names = ["" if x is None else f"x{k}" for k, x in enumerate(inputs)]
    node = h.make_node(op, names, [f"y{k}" for k in range(outputs)], **attrs)
    given, constants = [], []
    for k, x in enumerate(inputs):
        if x is None:
            continue
        x = np.asarray(x)
        if k in fixed:
            constants.append(onnx.numpy_helper.from_array(x, names[k]))
        else:
            dims = [f"d{k}_{d}" for d in range(x.ndim)] if named else x.shape
            given.append(h.make_tensor_value_info(names[k], h.np_dtype_to_tensor_dtype(x.dtype), dims))
    results = [onnx.ValueInfoProto(name=name) for name in node.output]
    return h.make_model(h.make_graph([node], op, given, results, constants), opset_imports=[h.make_opsetid("", opset)], ir_version=4 if opset < 14 else 8)


def main():
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else OUT
    onnxruntime.set_default_logger_severity(4)
    kept = 0
    with tarfile.open(out, "w:xz", preset=9, format=tarfile.USTAR_FORMAT) as archive:
        def put(name, data):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))

        for name, op, opset, inputs, outputs, fixed, attrs in CASES:
            models = [model(op, opset, inputs, outputs, fixed, attrs, named).SerializeToString() for named in (False, True)]
            given = {f"x{k}": np.asarray(x) for k, x in enumerate(inputs) if x is not None and k not in fixed}
            try:
                session = onnxruntime.InferenceSession(models[0], providers=["CPUExecutionProvider"])
                want = session.run(None, given)
            except Exception as e:  # what onnxruntime does not run has no golden
                print(f"no golden for {name}: {str(e)[:160]}")
                continue
            if any(w.dtype.kind not in "fiub" for w in want):
                print(f"no golden for {name}: {want[0].dtype}")
                continue
            data = io.BytesIO()
            np.savez(data, **{f"in:{k}": v for k, v in given.items()}, **{f"out:y{k}": v for k, v in enumerate(want)})
            put(name + ".npz", data.getvalue())
            put(name + ".onnx", models[0])
            put(name + ".named.onnx", models[1])
            kept += 1
    print(f"{kept} cases, {out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
