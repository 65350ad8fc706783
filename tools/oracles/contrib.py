#!/usr/bin/env python3
"""Operators of com.microsoft and ai.onnx.ml as onnxruntime computes them: one small model a case, its inputs and results.

usage: contrib.py OUT.npz          writes the goldens
       contrib.py --check OLD.npz  computes them again and compares within 1e-4 (integers: 1)
In the file CASE/model is the ONNX file's bytes, CASE/in/NAME an input, CASE/out/NAME a result.
"""
import sys

import numpy as np
import onnxruntime
from onnx import TensorProto as T
from onnx import helper, numpy_helper

MS, ML = "com.microsoft", "ai.onnx.ml"
CASES, STAND_INS = {}, {}


def f32(rng, *shape):
    return rng.normal(size=shape).astype(np.float32)


def case(name, op, inputs, outputs, domain=MS, version=1, constants=(), dims=None, **attributes):
    """inputs: (name, array or None) in order; constants: names of those that are initialisers; dims: declared shapes."""
    values = {n: a for n, a in inputs if a is not None}
    node = helper.make_node(op, [n if a is not None else "" for n, a in inputs], [o for o, _ in outputs], domain=domain, **attributes)
    kind = helper.np_dtype_to_tensor_dtype
    graph = helper.make_graph(
        [node], name,
        [helper.make_tensor_value_info(n, kind(a.dtype), (dims or {}).get(n, a.shape)) for n, a in values.items() if n not in constants],
        [helper.make_tensor_value_info(o, t, None) for o, t in outputs if o],
        [numpy_helper.from_array(values[n], n) for n in constants if n in values])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(domain, version)] if domain else [helper.make_opsetid("", version)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    CASES[name] = (model.SerializeToString(), {n: a for n, a in values.items() if n not in constants})


def stand_in(name, *arguments, **attributes):
    """The case that onnxruntime computes in place of NAME."""
    kept = CASES.pop(name)
    case(name, *arguments, **attributes)
    STAND_INS[name], CASES[name] = CASES[name], kept


def attention():
    rng = np.random.default_rng(1)
    B, S, N, D, P = 2, 5, 3, 4, 3
    H = N * D
    x, w, b = f32(rng, B, S, 10), f32(rng, 10, 3 * H), f32(rng, 3 * H)
    past = f32(rng, 2, B, N, P, D)
    free = {"x": ["batch", "seq", 10], "past": [2, "batch", N, "past", D], "mask": ["batch", "total"]}
    y, present = ("y", T.FLOAT), ("present", T.FLOAT)
    lengths = np.array([5, 3], np.int32)
    padding = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]], np.int32)
    case("attention", "Attention", [("x", x), ("w", w), ("b", b)], [y], constants=("w", "b"), dims=free, num_heads=N)
    case("attention_lengths", "Attention", [("x", x), ("w", w), ("b", b), ("mask", lengths)], [y], constants=("w", "b"), num_heads=N)
    case("attention_padding", "Attention", [("x", x), ("w", w), ("b", b), ("mask", padding)], [y], constants=("w", "b"), dims={"x": free["x"], "mask": ["batch", "seq"]}, num_heads=N)
    case("attention_mask3", "Attention", [("x", x), ("w", w), ("b", b), ("mask", rng.integers(0, 2, (B, S, S)).astype(np.int32))], [y], constants=("w", "b"), num_heads=N)
    case("attention_past", "Attention", [("x", x), ("w", w), ("b", b), ("mask", None), ("past", past)], [y, present], constants=("w", "b"), dims=free, num_heads=N, unidirectional=1)
    case("attention_past_mask", "Attention", [("x", x), ("w", w), ("b", b), ("mask", rng.integers(0, 2, (B, P + S)).astype(np.int32)), ("past", past)], [y, present], constants=("w", "b"), dims=free, num_heads=N, unidirectional=1)
    case("attention_bias", "Attention", [("x", x), ("w", w), ("b", b), ("m", None), ("p", None), ("bias", f32(rng, 1, N, S, S))], [y], constants=("w", "b"), num_heads=N, scale=0.3)
    w2, b2 = f32(rng, 10, 2 * H + 2 * H), f32(rng, 4 * H)
    case("attention_sizes", "Attention", [("x", x), ("w", w2), ("b", b2)], [y], constants=("w", "b"), num_heads=N, qkv_hidden_sizes=[H, H, 2 * H])

    q, k, v = f32(rng, B, S, H), f32(rng, B, 7, H), f32(rng, B, 7, H)
    free = {"q": ["batch", "seq", H], "k": ["batch", "keys", H], "v": ["batch", "keys", H]}
    case("mha", "MultiHeadAttention", [("q", q), ("k", k), ("v", v)], [y], dims=free, num_heads=N)
    case("mha_bias", "MultiHeadAttention", [("q", q), ("k", k), ("v", v), ("b", b)], [y], num_heads=N)
    case("mha_lengths", "MultiHeadAttention", [("q", q), ("k", k), ("v", v), ("b", None), ("mask", np.array([7, 4], np.int32))], [y], num_heads=N)
    case("mha_padding", "MultiHeadAttention", [("q", q), ("k", k), ("v", v), ("b", None), ("mask", rng.integers(0, 2, (B, 7)).astype(np.int32))], [y], num_heads=N)
    case("mha_attention_bias", "MultiHeadAttention", [("q", q), ("k", k), ("v", v), ("b", None), ("m", None), ("bias", f32(rng, 1, 1, S, 7))], [y], num_heads=N)
    # onnxruntime has the packed forms on GPUs only: the same numbers unpacked are its answer.
    qkv, kv = f32(rng, B, S, N, 3, D), f32(rng, B, 7, N, 2, D)
    apart = lambda packed, i: packed[:, :, :, i].reshape(B, packed.shape[1], H)
    case("mha_packed", "MultiHeadAttention", [("q", qkv)], [y], num_heads=N)
    stand_in("mha_packed", "MultiHeadAttention", [("q", apart(qkv, 0)), ("k", apart(qkv, 1)), ("v", apart(qkv, 2))], [y], num_heads=N)
    case("mha_packed_kv", "MultiHeadAttention", [("q", q), ("k", kv)], [y], num_heads=N)
    stand_in("mha_packed_kv", "MultiHeadAttention", [("q", q), ("k", apart(kv, 0)), ("v", apart(kv, 1))], [y], num_heads=N)
    case("mha_cross", "MultiHeadAttention", [("q", q), ("k", f32(rng, B, N, 7, D)), ("v", f32(rng, B, N, 7, D))], [y], num_heads=N)
    pk, pv = f32(rng, B, N, P, D), f32(rng, B, N, P, D)
    case("mha_past", "MultiHeadAttention", [("q", q), ("k", f32(rng, B, S, H)), ("v", f32(rng, B, S, H)), ("b", None), ("m", None), ("a", None), ("pk", pk), ("pv", pv)],
         [y, ("key", T.FLOAT), ("value", T.FLOAT)], num_heads=N, unidirectional=1)

    cos, sin = np.cos(f32(rng, 16, 4)), np.sin(f32(rng, 16, 4))
    xr = f32(rng, B, S, N * 8)
    ids = np.array([[0, 3, 5, 6, 9], [1, 2, 4, 8, 15]], np.int64)
    case("rotary", "RotaryEmbedding", [("x", xr), ("ids", ids), ("cos", cos), ("sin", sin)], [y], constants=("cos", "sin"), dims={"x": ["batch", "seq", N * 8], "ids": ["batch", "seq"]})
    case("rotary_offset", "RotaryEmbedding", [("x", xr), ("ids", np.array([7], np.int64)), ("cos", cos), ("sin", sin)], [y], interleaved=1)
    case("rotary_heads", "RotaryEmbedding", [("x", f32(rng, B, N, S, 8)), ("ids", ids), ("cos", cos), ("sin", sin)], [y])
    case("rotary_partial", "RotaryEmbedding", [("x", f32(rng, B, S, N * 12)), ("ids", ids), ("cos", cos), ("sin", sin)], [y], num_heads=N, rotary_embedding_dim=8)

    words, places, segments = f32(rng, 20, 8), f32(rng, 9, 8), f32(rng, 2, 8)
    tokens, seg = rng.integers(0, 20, (B, S)).astype(np.int32), rng.integers(0, 2, (B, S)).astype(np.int32)
    tables = ("words", "places", "segments", "gamma", "beta")
    case("embed_layer_norm", "EmbedLayerNormalization",
         [("ids", tokens), ("seg", seg), ("words", words), ("places", places), ("segments", segments), ("gamma", f32(rng, 8)), ("beta", f32(rng, 8)), ("mask", padding)],
         [y, ("lengths", T.INT32)], constants=tables, dims={"ids": ["batch", "seq"], "seg": ["batch", "seq"], "mask": ["batch", "seq"]})
    case("embed_layer_norm_plain", "EmbedLayerNormalization",
         [("ids", tokens), ("seg", None), ("words", words), ("places", places), ("segments", None), ("gamma", f32(rng, 8)), ("beta", f32(rng, 8)), ("mask", None), ("at", rng.integers(0, 9, (B, S)).astype(np.int32))],
         [y, ("lengths", T.INT32), ("sum", T.FLOAT)], constants=tables)


def norms():
    rng = np.random.default_rng(2)
    x, skip, gamma, beta, bias = f32(rng, 2, 3, 8), f32(rng, 2, 3, 8), f32(rng, 8), f32(rng, 8), f32(rng, 8)
    y, s = ("y", T.FLOAT), ("sum", T.FLOAT)
    case("skip_layer_norm", "SkipLayerNormalization", [("x", x), ("skip", skip), ("gamma", gamma), ("beta", beta), ("bias", bias)], [y, ("", T.FLOAT), ("", T.FLOAT), s])
    case("skip_layer_norm_short", "SkipLayerNormalization", [("x", x), ("skip", f32(rng, 3, 8)), ("gamma", gamma)], [y])
    case("skip_simplified", "SkipSimplifiedLayerNormalization", [("x", x), ("skip", skip), ("gamma", gamma)], [y, ("", T.FLOAT), ("", T.FLOAT), s], epsilon=1e-5)
    case("simplified", "SimplifiedLayerNormalization", [("x", x), ("gamma", gamma)], [y], domain="", version=18, epsilon=1e-5, axis=-1)
    case("bias_gelu", "BiasGelu", [("x", x), ("b", bias)], [y])
    case("fast_gelu", "FastGelu", [("x", x), ("b", bias)], [y])
    case("quick_gelu", "QuickGelu", [("x", x)], [y], alpha=1.5)
    case("gelu", "Gelu", [("x", x)], [y])
    case("fused_matmul", "FusedMatMul", [("a", f32(rng, 2, 4, 3)), ("b", f32(rng, 2, 5, 4))], [y], transA=1, transB=1, alpha=0.7)
    case("fused_conv", "FusedConv", [("x", f32(rng, 1, 3, 6, 6)), ("w", f32(rng, 4, 3, 3, 3)), ("b", f32(rng, 4))], [y], activation="LeakyRelu", activation_params=[0.2], pads=[1, 1, 1, 1])
    case("fused_conv_clip", "FusedConv", [("x", f32(rng, 1, 3, 6, 6)), ("w", f32(rng, 4, 3, 3, 3)), ("b", f32(rng, 4)), ("z", f32(rng, 1, 4, 4, 4))], [y], activation="Relu")
    case("fused_gemm", "FusedGemm", [("a", f32(rng, 3, 4)), ("b", f32(rng, 5, 4)), ("c", f32(rng, 5))], [y], transB=1, alpha=0.5, activation="LeakyRelu", activation_alpha=0.3)
    case("trilu", "Trilu", [("x", f32(rng, 4, 5))], [y], upper=0)


def nbits():
    rng = np.random.default_rng(3)
    y = ("y", T.FLOAT)
    K, N = 64, 5
    x = f32(rng, 3, K)

    def weights(bits, block):
        blocks = (K + block - 1) // block
        return (rng.integers(0, 256, (N, blocks, block * bits // 8)).astype(np.uint8), np.abs(f32(rng, N, blocks)) * 0.1,
                rng.integers(0, 256, (N, (blocks * bits + 7) // 8)).astype(np.uint8))
    fixed = ("w", "s", "z", "g", "b")
    for bits in (4, 8):
        w, s, z = weights(bits, 32)
        case(f"matmul_{bits}bits", "MatMulNBits", [("x", x), ("w", w), ("s", s)], [y], constants=fixed, K=K, N=N, bits=bits, block_size=32)
        case(f"matmul_{bits}bits_zeros", "MatMulNBits", [("x", x), ("w", w), ("s", s), ("z", z), ("g", None), ("b", f32(rng, N))], [y], constants=fixed, K=K, N=N, bits=bits, block_size=32)
    w, s, z = weights(4, 16)
    case("matmul_4bits_float_zeros", "MatMulNBits", [("x", x), ("w", w), ("s", s), ("z", np.abs(f32(rng, N, 4)) * 5)], [y], constants=fixed, K=K, N=N, bits=4, block_size=16)
    # onnxruntime leaves zero points out where there is a group index: none here.
    case("matmul_4bits_groups", "MatMulNBits", [("x", x), ("w", w), ("s", s), ("z", None), ("g", rng.permutation(np.arange(K) // 16).astype(np.int32))], [y], constants=fixed, K=K, N=N, bits=4, block_size=16)
    case("matmul_4bits_in_order", "MatMulNBits", [("x", x), ("w", w), ("s", s), ("z", None), ("g", (np.arange(K) // 16).astype(np.int32))], [y], constants=fixed, K=K, N=N, bits=4, block_size=16)
    table = rng.integers(0, 256, (10, 32)).astype(np.uint8)
    ids = np.array([[0, 9, 3], [4, 4, 1]], np.int64)
    case("gather_quantized", "GatherBlockQuantized", [("w", table), ("ids", ids), ("s", np.abs(f32(rng, 10, 4))), ("z", rng.integers(0, 256, (10, 2)).astype(np.uint8))], [y], constants=fixed, block_size=16, gather_axis=0, quantize_axis=1, bits=4)


def quantised():
    rng = np.random.default_rng(4)
    u8 = lambda *s: rng.integers(0, 256, s).astype(np.uint8)
    i8 = lambda *s: rng.integers(-128, 128, s).astype(np.int8)
    scale = lambda v: np.array(v, np.float32)
    zu, zi = (lambda v: np.array(v, np.uint8)), (lambda v: np.array(v, np.int8))
    yf, yu, yi = ("y", T.FLOAT), ("y", T.UINT8), ("y", T.INT8)
    a, b = u8(3, 8), i8(8, 5)
    case("matmul_integer_to_float", "MatMulIntegerToFloat", [("a", a), ("b", b), ("sa", scale(0.02)), ("sb", np.abs(f32(rng, 5))), ("za", zu(120)), ("zb", i8(5)), ("bias", f32(rng, 5))], [yf])
    case("dynamic_quantize_matmul", "DynamicQuantizeMatMul", [("a", f32(rng, 3, 8)), ("b", b), ("sb", scale(0.03)), ("zb", zi(3)), ("bias", f32(rng, 5))], [yf], constants=("b", "sb", "zb"))
    pair = [("a", u8(2, 3, 4)), ("sa", scale(0.05)), ("za", zu(100)), ("b", u8(3, 1)), ("sb", scale(0.03)), ("zb", zu(128)), ("sc", scale(0.1)), ("zc", zu(110))]
    case("qlinear_add", "QLinearAdd", pair, [yu])
    case("qlinear_mul", "QLinearMul", pair, [yu])
    one = [("x", i8(2, 3, 6, 6)), ("sx", scale(0.05)), ("zx", zi(3))]
    case("qlinear_sigmoid", "QLinearSigmoid", one + [("sy", scale(0.004)), ("zy", zi(-128))], [yi])
    case("qlinear_leaky_relu", "QLinearLeakyRelu", one + [("sy", scale(0.05)), ("zy", zi(-10))], [yi], alpha=0.1)
    case("qlinear_softmax", "QLinearSoftmax", [("x", u8(3, 7)), ("sx", scale(0.05)), ("zx", zu(3)), ("sy", scale(1 / 256)), ("zy", zu(0))], [yu], axis=-1, opset=13)
    case("qlinear_global_pool", "QLinearGlobalAveragePool", one + [("sy", scale(0.02)), ("zy", zi(1))], [yi], channels_last=0)
    case("qlinear_global_pool_last", "QLinearGlobalAveragePool", [("x", u8(2, 5, 5, 3)), ("sx", scale(0.05)), ("zx", zu(3)), ("sy", scale(0.02)), ("zy", zu(100))], [yu], channels_last=1)
    case("qlinear_average_pool", "QLinearAveragePool", one + [("sy", scale(0.04)), ("zy", zi(1))], [yi], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    case("qlinear_concat", "QLinearConcat", [("sy", scale(0.06)), ("zy", zu(100)), ("a", u8(2, 3)), ("sa", scale(0.05)), ("za", zu(120)), ("b", u8(2, 4)), ("sb", scale(0.07)), ("zb", zu(90))], [yu], constants=("sy", "zy", "sa", "za", "sb", "zb"), axis=1)
    case("qlinear_where", "QLinearWhere", [("c", rng.integers(0, 2, (3, 4)).astype(bool)), ("x", u8(3, 4)), ("sx", scale(0.05)), ("zx", zu(120)), ("z", u8(3, 4)), ("sz", scale(0.07)), ("zz", zu(90)), ("sy", scale(0.06)), ("zy", zu(100))], [yu],
         constants=("sx", "zx", "sz", "zz", "sy", "zy"))
    gemm = [("a", u8(3, 8)), ("sa", scale(0.02)), ("za", zu(120)), ("b", i8(5, 8)), ("sb", np.abs(f32(rng, 5))), ("zb", i8(5)), ("c", rng.integers(-500, 500, 5).astype(np.int32))]
    case("qgemm", "QGemm", gemm, [yf], constants=("b", "sb", "zb"), transB=1, alpha=0.5)
    case("qgemm_quantized", "QGemm", gemm + [("sy", scale(0.8)), ("zy", zu(120))], [yu], constants=("b", "sb", "zb"), transB=1)
    H, N = 12, 3
    case("qattention", "QAttention", [("x", u8(2, 5, 10)), ("w", i8(10, 3 * H)), ("b", f32(rng, 3 * H)), ("sx", scale(0.01)), ("sw", scale(0.01)), ("mask", np.array([5, 3], np.int32)), ("zx", zu(120)), ("zw", zi(2))], [yf], constants=("w", "b", "sw", "zw"), num_heads=N)
    for name, d, per_row, steps in (("forward", 1, False, 7), ("both", 2, False, 9), ("rows", 2, True, 5)):
        h = 24
        size = lambda: (d, 4 * h) if per_row else (d,)
        zero = lambda: np.zeros(size(), np.int8)
        w = [("w", i8(d, 10, 4 * h)), ("r", i8(d, h, 4 * h))]
        scales = [("sw", (np.abs(f32(rng, *size())) / 100 + 1e-3).astype(np.float32)), ("zw", zero()), ("sr", (np.abs(f32(rng, *size())) / 100 + 1e-3).astype(np.float32)), ("zr", zero())]
        state = [("h0", f32(rng, d, 1, h)), ("c0", f32(rng, d, 1, h))]
        case(f"dynamic_lstm_{name}", "DynamicQuantizeLSTM", [("x", f32(rng, steps, 1, 10)), *w, ("b", f32(rng, d, 8 * h)), ("", None), *state, ("", None), *scales],
             [yf, ("yh", T.FLOAT), ("yc", T.FLOAT)], constants=("w", "r", "b", "sw", "zw", "sr", "zr"), hidden_size=h, direction="bidirectional" if d == 2 else "forward")
    case("dequantize", "DequantizeLinear", [("x", u8(3, 4)), ("s", np.abs(f32(rng, 4))), ("z", u8(4))], [yf], axis=1)
    case("quantize", "QuantizeLinear", [("x", f32(rng, 3, 4)), ("s", scale(0.02)), ("z", np.array(300, np.uint16))], [("y", T.UINT16)])


def trees():
    rng = np.random.default_rng(5)
    x = f32(rng, 20, 4)
    x[3, 0] = np.nan

    def nodes(count, modes=("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT")):
        """Full trees of depth 2: decisions 0, 1, 2 and leaves 3..6."""
        a = {k: [] for k in ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids", "missing_value_tracks_true")}
        for tree in range(count):
            for node in range(7):
                inner = node < 3
                row = (tree, node, int(rng.integers(4)), str(rng.choice(modes)) if inner else "LEAF", float(rng.normal()), 2 * node + 1 if inner else 0, 2 * node + 2 if inner else 0, int(rng.integers(2)))
                for key, value in zip(a, row):
                    a[key].append(value)
        return {"nodes_" + k: v for k, v in a.items()}

    def leaves(prefix, count, targets, positive=False):
        ids = [(tree, node, t) for tree in range(count) for node in range(3, 7) for t in targets]
        w = rng.normal(size=len(ids))
        return {f"{prefix}_treeids": [i[0] for i in ids], f"{prefix}_nodeids": [i[1] for i in ids], f"{prefix}_ids": [i[2] for i in ids],
                f"{prefix}_weights": (np.abs(w) if positive else w).tolist()}
    y = [("y", T.FLOAT)]
    free = {"x": ["rows", 4]}
    for how in ("SUM", "AVERAGE", "MIN", "MAX"):
        case(f"tree_regressor_{how.lower()}", "TreeEnsembleRegressor", [("x", x)], y, domain=ML, version=1, dims=free, aggregate_function=how, n_targets=2, base_values=[0.5, -0.25], **nodes(3), **leaves("target", 3, (0, 1)))
    # Of two targets: onnxruntime leaves the transform of a single one out.
    case("tree_regressor_logistic", "TreeEnsembleRegressor", [("x", x)], y, domain=ML, version=3, n_targets=2, post_transform="LOGISTIC", **nodes(2), **leaves("target", 2, (0, 1)))
    both = [("label", T.INT64), ("scores", T.FLOAT)]
    for post in ("NONE", "SOFTMAX", "LOGISTIC"):
        case(f"tree_classifier_{post.lower()}", "TreeEnsembleClassifier", [("x", x)], both, domain=ML, version=1, dims=free, classlabels_int64s=[7, 5, 9], post_transform=post, base_values=[0.1, 0.2, 0.3], **nodes(3), **leaves("class", 3, (0, 1, 2)))
        for first in (0, 1):
            for positive in (False, True):
                case(f"tree_binary_{post.lower()}_{first}_{'positive' if positive else 'mixed'}", "TreeEnsembleClassifier", [("x", x)], both, domain=ML, version=3, classlabels_int64s=[7, 5], post_transform=post, **nodes(2), **leaves("class", 2, (first,), positive))
    case("tree_integers", "TreeEnsembleClassifier", [("x", rng.integers(-2, 3, (6, 4)).astype(np.int64))], both, domain=ML, version=1, classlabels_int64s=[1, 2, 3], **nodes(2), **leaves("class", 2, (0, 1, 2)))


def classic():
    rng = np.random.default_rng(6)
    x = f32(rng, 6, 3)
    y, both = [("y", T.FLOAT)], [("label", T.INT64), ("scores", T.FLOAT)]
    ml = dict(domain=ML, version=1)
    for post in ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"):
        case(f"linear_classifier_{post.lower()}", "LinearClassifier", [("x", x)], both, coefficients=f32(rng, 9).tolist(), intercepts=f32(rng, 3).tolist(), classlabels_ints=[3, 1, 2], post_transform=post, **ml)
        case(f"linear_binary_{post.lower()}", "LinearClassifier", [("x", x)], both, coefficients=f32(rng, 3).tolist(), intercepts=[0.1], classlabels_ints=[3, 1], post_transform=post, **ml)
    case("linear_regressor", "LinearRegressor", [("x", x)], y, coefficients=f32(rng, 6).tolist(), intercepts=[0.1, 0.2], targets=2, **ml)
    rows = np.array([[-3, 1, 2], [1, 2, -2], [4, 0, 0]], np.float32)
    for norm in ("MAX", "L1", "L2"):
        case(f"normalizer_{norm.lower()}", "Normalizer", [("x", rows)], y, norm=norm, **ml)
    case("scaler", "Scaler", [("x", x)], y, offset=[0.1, 0.2, 0.3], scale=[2.0, 0.5, 1.0], **ml)
    case("scaler_one", "Scaler", [("x", rows.astype(np.int64))], y, offset=[0.5], scale=[2.0], **ml)
    holes = x.copy()
    holes[0, 1] = holes[2, 2] = np.nan
    case("imputer", "Imputer", [("x", holes)], y, imputed_value_floats=[1.0, 2.0, 3.0], replaced_value_float=float("nan"), **ml)
    case("imputer_integers", "Imputer", [("x", np.array([[1, -1, 2]], np.int64))], [("y", T.INT64)], imputed_value_int64s=[9], replaced_value_int64=-1, **ml)
    case("binarizer", "Binarizer", [("x", x)], y, threshold=0.3, **ml)
    case("array_feature_extractor", "ArrayFeatureExtractor", [("x", x), ("at", np.array([2, 0], np.int64))], y, **ml)
    ids = np.array([[1, 2], [5, 3]], np.int64)
    case("label_encoder", "LabelEncoder", [("x", ids)], y, domain=ML, version=2, keys_int64s=[1, 2, 3], values_floats=[0.5, 1.5, 2.5], default_float=-1.0)
    case("label_encoder_integers", "LabelEncoder", [("x", ids)], [("y", T.INT64)], domain=ML, version=2, keys_int64s=[1, 2, 3], values_int64s=[10, 20, 30])
    case("label_encoder_floats", "LabelEncoder", [("x", np.array([1.5, np.nan, 2], np.float32))], [("y", T.INT64)], domain=ML, version=2, keys_floats=[1.5, float("nan")], values_int64s=[10, 20])
    case("label_encoder_nan", "LabelEncoder", [("x", np.array([1.5, np.nan, 2], np.float32))], [("y", T.INT64)], domain=ML, version=4, keys_floats=[1.5, float("nan")], values_int64s=[10, 20])
    case("one_hot_encoder", "OneHotEncoder", [("x", ids)], y, cats_int64s=[1, 2, 3], zeros=1, **ml)
    case("feature_vectorizer", "FeatureVectorizer", [("a", x), ("b", f32(rng, 6, 2))], y, inputdimensions=[3, 2], **ml)


def computed():
    for group in (attention, norms, nbits, quantised, trees, classic):
        group()
    out = {}
    for name, (model, inputs) in CASES.items():
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        try:
            asked, given = STAND_INS.get(name, (model, inputs))
            session = onnxruntime.InferenceSession(asked, options, providers=["CPUExecutionProvider"])
            results = dict(zip([o.name for o in session.get_outputs()], session.run(None, given)))
        except Exception as e:
            sys.exit(f"contrib.py: {name}: {e}")
        out[f"{name}/model"] = np.frombuffer(model, np.uint8)
        out.update({f"{name}/in/{k}": v for k, v in inputs.items()})
        out.update({f"{name}/out/{k}": v for k, v in results.items()})
    return out


def check(path):
    old, new = np.load(path), computed()
    wrong = sorted(set(old.files) ^ set(new))
    for key in set(old.files) & set(new):
        a, b = old[key], new[key]
        limit = 1 if a.dtype.kind in "iu" else 1e-4
        if a.dtype != b.dtype or a.shape != b.shape or (not key.endswith("/model") and not np.allclose(a.astype(np.float64), b.astype(np.float64), rtol=1e-4, atol=limit, equal_nan=True)):
            wrong.append(key)
    for key in wrong:
        print(f"differs: {key}")
    sys.exit(1 if wrong else 0)


if len(sys.argv) == 3 and sys.argv[1] == "--check":
    check(sys.argv[2])
np.savez_compressed(sys.argv[1], **computed())
print(f"{len(CASES)} cases")
