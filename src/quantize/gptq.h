// 4-bit weights that keep a product's results, not only the weights: rounding errors of one column are made good by the
// columns that follow it, as far as the inputs seen in calibration are correlated.
//
// For a weight row w and its codes' values v the loss is (w - v) H (w - v)^T with H = sum x^T x over calibration inputs x
// [1, K]. Columns are rounded one after the other, each with the feedback of the errors before it; the feedback is a
// column of the unit upper factor U of H = U D U^T. That is GPTQ (Frantar et al., 2022) in the form of LDLQ, which gives
// the same codes without an inverse (Chee et al., QuIP, 2023, theorem 6). Then a few sweeps of coordinate descent on the same
// loss choose scales, minimums and codes again, group by group.
#pragma once
#include <cstdint>
#include <vector>

#include "tensor/tensor.h"

namespace brisk {

struct GptqOptions {
  int64_t group = 32;      // columns that share a scale and a minimum; divides K
  double damping = 0.01;   // of the mean of H's diagonal, added to the diagonal
  int sweeps = 2;          // of coordinate descent after the rounding
  int threads = 1;         // rows are independent: the number of threads changes no bit
};

class Gptq {
 public:
  // `hessian`: row-major [K, K], symmetric, positive semidefinite up to rounding; singular is fine, so are inputs that
  // were always 0 (their columns are rounded as they are). kInvalid: elements that are not finite.
  static Result<Gptq> create(std::vector<float> hessian, int64_t k, const GptqOptions& options);

  // Row-major [N, K] weight of any encoding -> u4 codes in groups with f16 scales and minimums.
  ConstantPtr quantize(const Constant& weight) const;

 private:
  Gptq() = default;
  int64_t k_ = 0;
  GptqOptions options_;
  std::vector<float> h_;         // [K, K], damped
  std::vector<float> feedback_;  // [K, K]: row k holds U[j][k] for j < k
  std::vector<float> variance_;  // [K]: D, what a rounding error of column k costs after all feedback
};

}  // namespace brisk
