// The groups of reference kernels; ref.cpp calls each once.
#pragma once
#include "kernel/kernel.h"

namespace brisk::ref {

void add_decoder(Registry& r);
void add_linear(Registry& r);
void add_sample(Registry& r);
void add_pointwise(Registry& r);    // unary, binary, Where, Cast, fused chains
void add_movement(Registry& r);     // Transpose, Slice, Concat, Expand, Pad, ...
void add_indexing(Registry& r);     // Gather*, Scatter*, TopK, NonZero, ...
void add_reduction(Registry& r);    // Reduce*, ArgMax, Softmax, CumSum
void add_products(Registry& r);     // MatMul, Gemm, MatMulInteger, Einsum
void add_convolution(Registry& r);  // Conv, ConvTranspose, pools
void add_normalization(Registry& r);
void add_recurrent(Registry& r);    // LSTM, GRU, RNN
void add_quantization(Registry& r);
void add_image(Registry& r);        // Resize
void add_sampling(Registry& r);     // GridSample, RoiAlign, MaxRoiPool
void add_windows(Registry& r);      // DeformConv, MaxUnpool, Col2Im
void add_selection(Registry& r);    // Unique, NonMaxSuppression, TfIdfVectorizer
void add_attention(Registry& r);    // ONNX's Attention and RotaryEmbedding
void add_linear_attention(Registry& r);

// Registers "ref.<Op>" for every problem of an operator.
inline void add(Registry& r, OpId op, KernelFn run, bool (*accepts)(const ProblemDesc&) = nullptr, uint32_t in_place = 0) {
  KernelDesc d;
  d.id = std::string("ref.") + op_name(op);
  d.op = op;
  d.run = run;
  d.accepts = accepts;
  d.in_place = in_place;
  r.add(std::move(d));
}

}  // namespace brisk::ref
