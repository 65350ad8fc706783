// Convolutions of float planes. x: [N, C, spatial...], up to three spatial axes.
#pragma once
#include <vector>

#include "backend/cpu/kernel_table.h"
#include "backend/cpu/thread_pool.h"
#include "backend/cpu/window_space.h"

namespace brisk::cpu {

// Packed weights: row m holds its filter with the channels of a tap together, w[m][tap * C / group + c], rows an odd number
// of cache lines apart, so that the rows of a tile do not fall into the same sets.
int64_t conv_row(int64_t per_group, int64_t taps);
void pack_conv(const float* w, int64_t filters, int64_t per_group, int64_t taps, float* out);

struct ConvEnd {
  const float* bias = nullptr;      // [filters]
  const float* residual = nullptr;  // of y's shape
  bool residual_last = false;
  UnaryCall act;
};

struct ConvCall {
  WindowSpace space;
  int64_t batch = 1, channels = 0, filters = 0, groups = 1;
  const float* x = nullptr;
  const float* w = nullptr;  // packed; depthwise: [filters][taps]
  ConvEnd end = {};
  float* y = nullptr;
};
// Any groups: the filters are the rows of a product, whose columns are windows gathered into panels, or, where the window
// is larger than one element and the planes are wide enough, read out of a padded copy of a band of the planes.
void conv(const KernelTable& t, ThreadPool& pool, const ConvCall& c);

// One input channel a group, at most two spatial axes: planes are cut into tiles whose windows fit plane_tile.h's scratch.
bool depthwise_fits(const WindowSpace& s);
void conv_depthwise(const KernelTable& t, ThreadPool& pool, const ConvCall& c);

// Weights [channels, filters / groups, taps] packed as rows [group][filter of the group][tap] of conv_row(channels / groups, 1)
// floats; every filter and tap makes a plane of x's size, and those are added up where they belong.
void pack_conv_transpose(const float* w, int64_t channels, int64_t per_group, int64_t taps, int64_t groups, float* out);
int64_t conv_transpose_workspace(const ConvCall& c);
// `space` is that of the result's windows over x: in and out are x's and y's sizes, w[i].begin what is cut off in front.
void conv_transpose(const KernelTable& t, ThreadPool& pool, const ConvCall& c, float* workspace);

}  // namespace brisk::cpu
