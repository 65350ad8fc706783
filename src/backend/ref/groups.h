// The groups of reference kernels; ref.cpp calls each once.
#pragma once
#include "kernel/kernel.h"

namespace brisk::ref {

void add_decoder(Registry& r);
void add_linear(Registry& r);
void add_sample(Registry& r);
void add_pointwise(Registry& r);  // unary, binary, Where, Cast, fused chains

// Registers "ref.<Op>" for every problem of an operator.
inline void add(Registry& r, OpId op, KernelFn run, bool (*accepts)(const ProblemDesc&) = nullptr) {
  KernelDesc d;
  d.id = std::string("ref.") + op_name(op);
  d.op = op;
  d.run = run;
  d.accepts = accepts;
  r.add(std::move(d));
}

}  // namespace brisk::ref
