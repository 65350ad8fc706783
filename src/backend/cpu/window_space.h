// The spatial part of a convolution or pool with its numbers, for up to three axes; missing ones are of size 1.
#pragma once
#include "op/window.h"
#include "tensor/tensor.h"

namespace brisk::cpu {

struct WindowSpace {
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1};
  WindowAxis w[3];
  int64_t in_count = 1, out_count = 1, taps = 1;

  // x, y: [N, C, spatial...] with 1 to 3 spatial axes, which fill the last places; kernel: one number each.
  WindowSpace(const WindowAttrs& a, const Dims& x, const Dims& y, const int64_t* kernel) {
    int axes = x.rank - 2;
    for (int i = 0; i < axes; i++) {
      int to = 3 - axes + i;
      in[to] = x[2 + i];
      out[to] = y[2 + i];
      w[to] = window_axis(a, static_cast<size_t>(i), kernel[i], axes, in[to]);
    }
    count();
  }

  // One row of places where the window is a single element and nothing is skipped or padded.
  void flatten() {
    for (int i = 0; i < 3; i++)
      if (w[i].kernel != 1 || w[i].stride != 1 || w[i].begin != 0 || in[i] != out[i]) return;
    in[2] = out[2] = in_count;
    in[0] = in[1] = out[0] = out[1] = 1;
  }

 private:
  void count() {
    for (int i = 0; i < 3; i++) in_count *= in[i], out_count *= out[i], taps *= w[i].kernel;
  }
};

}  // namespace brisk::cpu
