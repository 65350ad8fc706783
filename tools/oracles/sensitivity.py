"""How far onnxruntime's own results of a model move when its float weights change in their last bit.

usage: sensitivity.py MODEL.onnx GOLDEN.npz [RUNS]     prints each result's shapes with their counts, and the largest change
Where sizes themselves change, no other implementation can be held to one of them: kokoro-int8 rounds durations that int8
activations computed, and gives 22,800 to 27,600 samples.
"""
import collections
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper


def run(model, given):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, given)))


def nudged(path, seed):
    model, rng = onnx.load(path), np.random.default_rng(seed)
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            a = numpy_helper.to_array(tensor)
            if a.size > 8:  # scales and epsilons stay
                tensor.CopyFrom(numpy_helper.from_array((a * (1 + 6e-8 * rng.integers(-1, 2, a.shape))).astype(np.float32), tensor.name))
    return model


def main():
    path, golden = sys.argv[1:3]
    data = np.load(golden)
    given = {key[3:]: data[key] for key in data.files if key.startswith("in:")}
    first = run(onnx.load(path), given)
    shapes, change = collections.defaultdict(collections.Counter), collections.Counter()
    for seed in range(int(sys.argv[3]) if len(sys.argv) > 3 else 12):
        for name, value in run(nudged(path, seed), given).items():
            shapes[name][value.shape] += 1
            if value.shape == first[name].shape and value.size:
                change[name] = max(change[name], float(np.max(np.abs(value.astype(np.float64) - first[name]))))
    for name, value in first.items():
        print(f"{name}: unchanged weights {value.shape}; changed {dict(shapes[name])}; largest change where the shape stays {change[name]:.3g}")


main()
