// Attribute structs of the operators. Each lists its members once, in fields(); printing, comparison, hashing and the
// engine file's (de)serialisation all go by that list. Member types: int64_t, float, bool, std::string, DType,
// std::vector<int64_t>, std::vector<float>, std::vector<std::string>.
#pragma once
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "tensor/dtype.h"

namespace brisk {

struct NoAttrs {
  static constexpr const char* kName = "none";
  template <class S, class F> static void fields(S&, F&&) {}
};

// A list of numbers and a flag, for the many operators that need just an axis or axes.
struct AxisAttrs {  // Concat, Softmax, LogSoftmax, Gather, GatherElements, ArgMax, CumSum, Split, ...
  int64_t axis = 0;
  static constexpr const char* kName = "axis";
  template <class S, class F> static void fields(S& s, F&& f) { f("axis", s.axis); }
};

struct ReduceAttrs {  // Reduce*: axes normalised to [0, rank), ascending; ArgMax/ArgMin: one axis
  std::vector<int64_t> axes;
  bool keep_dims = true;
  bool all = false;         // no axes given: reduce all (the rank need not be known)
  bool select_last = false;  // ArgMax/ArgMin only
  static constexpr const char* kName = "reduce";
  template <class S, class F> static void fields(S& s, F&& f) {
    f("axes", s.axes), f("keep_dims", s.keep_dims), f("all", s.all), f("select_last", s.select_last);
  }
};

struct CastAttrs {
  DType to = DType::kF32;
  bool saturate = true;        // to fp8 only
  std::string round = "up";    // to f8e8m0 only: up, down, nearest
  static constexpr const char* kName = "cast";
  template <class S, class F> static void fields(S& s, F&& f) { f("to", s.to), f("saturate", s.saturate), f("round", s.round); }
};

struct TransposeAttrs {
  std::vector<int64_t> perm;  // output axis i is input axis perm[i]
  static constexpr const char* kName = "transpose";
  template <class S, class F> static void fields(S& s, F&& f) { f("perm", s.perm); }
};

struct NormAttrs {  // RmsNorm, LayerNorm (over axes [axis, rank)), BatchNorm, InstanceNorm, GroupNorm
  float epsilon = 1e-5f;
  int64_t axis = -1;
  int64_t groups = 0;  // GroupNorm only
  static constexpr const char* kName = "norm";
  template <class S, class F> static void fields(S& s, F&& f) {
    f("epsilon", s.epsilon), f("axis", s.axis), f("groups", s.groups);
  }
};

// Prologue, activation treatment and epilogue of Linear: y = act_quant(norm(x)) * W^T, then bias, then gate or
// activation, then residual.
struct LinearAttrs {
  // 0: activations as they are. Else: int8, symmetric, dynamic per token and group of this many elements along K,
  // scale = max|x| / 127 over the group, code = round-to-nearest-even(x / scale), clamped to [-127, 127].
  int64_t act_group = 0;
  // 2: what the codes leave over is quantised once more in the same way, and the two products are added: about 15 bits at
  // the speed of integers. With act_group 0: they are not rounded to the weight's type either, as kernels may do else.
  int64_t act_terms = 1;
  // Output columns 2i and 2i+1 hold gate and up: y[i] = act(gate) * up, N / 2 columns; act "" is Silu here.
  bool gated = false;
  float norm_epsilon = 0;  // with a norm weight operand: x is RMS-normalised first
  std::string act;         // "" or a name of op/activation.h
  float act_alpha = 0, act_beta = 0;
  static constexpr const char* kName = "linear";
  template <class S, class F> static void fields(S& s, F&& f) {
    f("act_group", s.act_group), f("act_terms", s.act_terms), f("gated", s.gated), f("norm_epsilon", s.norm_epsilon);
    f("act", s.act), f("act_alpha", s.act_alpha), f("act_beta", s.act_beta);
  }
};

struct GemmAttrs {  // MatMul, Gemm: alpha * op(A) op(B) + beta * C
  float alpha = 1, beta = 1;
  bool trans_a = false, trans_b = false;
  static constexpr const char* kName = "gemm";
  template <class S, class F> static void fields(S& s, F&& f) {
    f("alpha", s.alpha), f("beta", s.beta), f("trans_a", s.trans_a), f("trans_b", s.trans_b);
  }
};

// Rotary position embedding (Su et al., RoFormer, 2021): pairs (i, i + dim/2), or (2i, 2i + 1) if interleaved, of the
// first `dim` elements of each head are rotated by position * frequency[i].
struct RopeAttrs {
  int64_t head_dim = 0;
  int64_t dim = 0;  // rotated elements, <= head_dim
  bool interleaved = false;
  float magnitude = 1;  // cos and sin are scaled by it (YaRN)
  static constexpr const char* kName = "rope";
  template <class S, class F> static void fields(S& s, F&& f) {
    f("head_dim", s.head_dim), f("dim", s.dim), f("interleaved", s.interleaved), f("magnitude", s.magnitude);
  }
};

// Causal attention of a ragged batch over paged state. With rope.dim > 0 the q and k parts of the packed input are
// rotated first (the frequencies are an operand).
struct AttentionAttrs {
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  float scale = 1;        // of q.k
  int64_t window = 0;     // keys seen: positions > query - window; 0: all
  float softcap = 0;      // s = softcap * tanh(s / softcap); 0: none
  int64_t rope_dim = 0;
  bool rope_interleaved = false;
  float rope_magnitude = 1;
  static constexpr const char* kName = "attention";
  template <class S, class F> static void fields(S& s, F&& f) {
    f("heads", s.heads), f("kv_heads", s.kv_heads), f("head_dim", s.head_dim), f("scale", s.scale);
    f("window", s.window), f("softcap", s.softcap), f("rope_dim", s.rope_dim);
    f("rope_interleaved", s.rope_interleaved), f("rope_magnitude", s.rope_magnitude);
  }
};

// A chain of pointwise operators as one loop: a little register program (pointwise_program.h decodes it). Instruction i
// computes register inputs + i from earlier registers; registers [0, inputs) are the operands, each broadcast to the
// result's shape, constants being operands of one element. f16 and bf16 operands are f32 in their registers.
struct PointwiseAttrs {
  std::vector<std::string> ops;      // operator names, from the table's pointwise rows
  std::vector<int64_t> a, b, c;      // registers; -1: not used; no c at all: none is
  std::vector<float> alpha, beta;    // attributes of parameterised unaries (LeakyRelu, HardSigmoid, ...); else 0
  std::vector<int64_t> to;           // Cast's DType, else 0; none at all: no Cast
  DType result = DType::kF32;        // what the last register is stored as
  static constexpr const char* kName = "pointwise";
  template <class S, class F> static void fields(S& s, F&& f) {
    f("ops", s.ops), f("a", s.a), f("b", s.b), f("c", s.c), f("alpha", s.alpha), f("beta", s.beta), f("to", s.to), f("result", s.result);
  }
};

struct AlphaBetaAttrs {  // LeakyRelu, Elu, HardSigmoid, Celu, Selu, ThresholdedRelu, Gelu(alpha = 1: tanh form), Clip(min, max)
  float alpha = 0, beta = 0;
  static constexpr const char* kName = "alpha_beta";
  template <class S, class F> static void fields(S& s, F&& f) { f("alpha", s.alpha), f("beta", s.beta); }
};

struct WindowAttrs {  // Conv, ConvTranspose, ConvInteger, MaxPool, AveragePool, LpPool: over the spatial axes
  std::vector<int64_t> kernel;  // pools; convolutions take it from the weight
  std::vector<int64_t> strides, dilations;
  std::vector<int64_t> pads;  // begin of each axis, then end of each axis
  std::string auto_pad;       // "", "SAME_UPPER", "SAME_LOWER", "VALID"
  int64_t group = 1;
  std::vector<int64_t> output_padding, output_shape;  // ConvTranspose
  bool ceil_mode = false, count_include_pad = false;
  int64_t p = 2;              // LpPool
  bool column_major = false;  // MaxPool's Indices
  std::string act;            // Conv's epilogue: "" or a name of op/activation.h
  float act_alpha = 0, act_beta = 0;
  bool residual_last = false;  // Conv's residual is added after the activation (before: act(conv + bias + residual))
  static constexpr const char* kName = "window";
  template <class S, class F> static void fields(S& s, F&& f) {
    f("kernel", s.kernel), f("strides", s.strides), f("dilations", s.dilations), f("pads", s.pads);
    f("auto_pad", s.auto_pad), f("group", s.group), f("output_padding", s.output_padding);
    f("output_shape", s.output_shape), f("ceil_mode", s.ceil_mode), f("count_include_pad", s.count_include_pad);
    f("p", s.p), f("column_major", s.column_major), f("act", s.act), f("act_alpha", s.act_alpha);
    f("act_beta", s.act_beta), f("residual_last", s.residual_last);
  }
};

struct ModeAttrs {  // operators chosen by a word and a few numbers: Pad (mode), ScatterND/Elements (reduction), Trilu, Mod, ...
  std::string mode;
  int64_t axis = 0;
  int64_t flag = 0;
  static constexpr const char* kName = "mode";
  template <class S, class F> static void fields(S& s, F&& f) { f("mode", s.mode), f("axis", s.axis), f("flag", s.flag); }
};

struct ResizeAttrs {
  std::string mode = "nearest", coordinates = "half_pixel", nearest = "round_prefer_floor", aspect = "stretch";
  float cubic_a = -0.75f, extrapolation = 0;
  bool exclude_outside = false, antialias = false;
  std::vector<int64_t> axes;
  static constexpr const char* kName = "resize";
  template <class S, class F> static void fields(S& s, F&& f) {
    f("mode", s.mode), f("coordinates", s.coordinates), f("nearest", s.nearest), f("aspect", s.aspect);
    f("cubic_a", s.cubic_a), f("extrapolation", s.extrapolation), f("exclude_outside", s.exclude_outside);
    f("antialias", s.antialias), f("axes", s.axes);
  }
};

struct RecurrentAttrs {  // LSTM, GRU, RNN as ONNX defines them
  int64_t hidden = 0;
  std::string direction = "forward";  // forward, reverse, bidirectional
  std::vector<std::string> activations;
  std::vector<float> activation_alpha, activation_beta;
  float clip = 0;  // 0: none
  bool linear_before_reset = false, input_forget = false, batch_first = false;
  bool round_state = false;  // products read h rounded, each row and step, to ByteLevels between its extremes
  static constexpr const char* kName = "recurrent";
  template <class S, class F> static void fields(S& s, F&& f) {
    f("hidden", s.hidden), f("direction", s.direction), f("activations", s.activations);
    f("activation_alpha", s.activation_alpha), f("activation_beta", s.activation_beta), f("clip", s.clip);
    f("linear_before_reset", s.linear_before_reset), f("input_forget", s.input_forget), f("batch_first", s.batch_first);
    f("round_state", s.round_state);
  }
};

struct SliceAttrs {  // Split: sizes; Flatten-like needs
  int64_t axis = 0;
  std::vector<int64_t> sizes;  // Split: of each output; empty: equal parts (or given as the second operand)
  static constexpr const char* kName = "slice";
  template <class S, class F> static void fields(S& s, F&& f) { f("axis", s.axis), f("sizes", s.sizes); }
};

struct ShapeAttrs {  // Shape: axes [start, end), negative from the end, clamped
  int64_t start = 0, end = INT64_MAX;
  static constexpr const char* kName = "shape";
  template <class S, class F> static void fields(S& s, F&& f) { f("start", s.start), f("end", s.end); }
};

struct QuantAttrs {  // QuantizeLinear, DequantizeLinear
  int64_t axis = 1, block = 0;  // axis of a scale of rank 1; block > 0: the scale has x's rank and one element per block
  DType to = DType::kU8;        // of the result
  bool saturate = true;         // to fp8 only
  static constexpr const char* kName = "quant";
  template <class S, class F> static void fields(S& s, F&& f) {
    f("axis", s.axis), f("block", s.block), f("to", s.to), f("saturate", s.saturate);
  }
};

struct LrnAttrs {
  float alpha = 1e-4f, beta = 0.75f, bias = 1;
  int64_t size = 1;
  static constexpr const char* kName = "lrn";
  template <class S, class F> static void fields(S& s, F&& f) {
    f("alpha", s.alpha), f("beta", s.beta), f("bias", s.bias), f("size", s.size);
  }
};

// Attention over whole tensors: softmax(scale * q k^T, masked) v.
struct SdpaAttrs {
  int64_t heads = 0, kv_heads = 0;  // of operands of rank 3; 0: operands have rank 4
  float scale = 0;                  // 0: 1 / sqrt(head size)
  float softcap = 0;
  bool causal = false;
  int64_t left_window = -1, right_window = -1;  // keys seen before and after the query's own place; -1: all
  int64_t scores_mode = 0;          // result 3: 0 scaled q k^T, 1 after softcap, 2 with mask, 3 after softmax
  static constexpr const char* kName = "sdpa";
  template <class S, class F> static void fields(S& s, F&& f) {
    f("heads", s.heads), f("kv_heads", s.kv_heads), f("scale", s.scale), f("softcap", s.softcap), f("causal", s.causal);
    f("left_window", s.left_window), f("right_window", s.right_window), f("scores_mode", s.scores_mode);
  }
};

struct GridSampleAttrs {
  std::string mode = "linear", padding = "zeros";  // linear, nearest, cubic; zeros, border, reflection
  bool align_corners = false;  // -1 and 1 are the centres of the outer elements, else their outer edges
  static constexpr const char* kName = "grid_sample";
  template <class S, class F> static void fields(S& s, F&& f) {
    f("mode", s.mode), f("padding", s.padding), f("align_corners", s.align_corners);
  }
};

struct RoiAttrs {  // RoiAlign, MaxRoiPool: [height, width] results of each region
  int64_t height = 1, width = 1;
  int64_t sampling = 0;  // points along each axis of a bin; 0: one for each element it covers
  float scale = 1;       // of the regions' coordinates
  bool half_pixel = false, max = false;
  static constexpr const char* kName = "roi";
  template <class S, class F> static void fields(S& s, F&& f) {
    f("height", s.height), f("width", s.width), f("sampling", s.sampling), f("scale", s.scale);
    f("half_pixel", s.half_pixel), f("max", s.max);
  }
};

struct NgramAttrs {  // TfIdfVectorizer
  std::string mode = "TF";  // TF: counts; IDF: weights of what occurs; TFIDF: count times weight
  int64_t min_length = 1, max_length = 1, max_skip = 0;
  std::vector<int64_t> starts;   // in pool: of the 1-grams, 2-grams, ...
  std::vector<int64_t> columns;  // of the result, one for each n-gram of the pool
  std::vector<int64_t> pool;
  std::vector<float> weights;    // of each column; none: 1
  static constexpr const char* kName = "ngram";
  template <class S, class F> static void fields(S& s, F&& f) {
    f("mode", s.mode), f("min_length", s.min_length), f("max_length", s.max_length), f("max_skip", s.max_skip);
    f("starts", s.starts), f("columns", s.columns), f("pool", s.pool), f("weights", s.weights);
  }
};

struct LinearAttentionAttrs {
  int64_t heads = 0, kv_heads = 0;
  float scale = 0;  // of what is read from the state; 0: 1 / sqrt(key size)
  bool gated = false, delta = false;
  static constexpr const char* kName = "linear_attention";
  template <class S, class F> static void fields(S& s, F&& f) {
    f("heads", s.heads), f("kv_heads", s.kv_heads), f("scale", s.scale), f("gated", s.gated), f("delta", s.delta);
  }
};

// Everything a node can carry. A new struct is added here and nowhere else.
using Attrs = std::variant<NoAttrs, AxisAttrs, ReduceAttrs, CastAttrs, TransposeAttrs, NormAttrs, LinearAttrs, GemmAttrs,
                           RopeAttrs, AttentionAttrs, PointwiseAttrs, AlphaBetaAttrs, WindowAttrs, ModeAttrs,
                           ResizeAttrs, RecurrentAttrs, SliceAttrs, ShapeAttrs, QuantAttrs, LrnAttrs, SdpaAttrs,
                           GridSampleAttrs, RoiAttrs, NgramAttrs, LinearAttentionAttrs>;

std::string to_string(const Attrs& attrs);  // "{axis=1}"; "" where nothing differs from the default
bool operator==(const Attrs& a, const Attrs& b);

// Bytes for the engine file: the struct's name, then its fields in order. decode() refuses anything malformed.
std::string encode(const Attrs& attrs);
bool decode(std::string_view bytes, Attrs& out);

}  // namespace brisk
