// Convolutions of the CPU backend against the peak of fused multiply-add, measured in the same run.
// usage: conv_kernels [threads, 0 = all]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "backend/cpu/conv.h"
#include "bench/cpu_limits.h"

using namespace brisk;
using namespace brisk::cpu;

namespace {

struct Case {
  const char* name;
  int64_t channels, filters, groups, high, wide, kernel, stride;
};
constexpr Case kCases[] = {{"first 7x7 s2", 3, 64, 1, 224, 224, 7, 2},    {"3x3", 64, 64, 1, 56, 56, 3, 1},
                           {"3x3", 128, 128, 1, 28, 28, 3, 1},            {"3x3", 256, 256, 1, 14, 14, 3, 1},
                           {"3x3", 512, 512, 1, 7, 7, 3, 1},              {"3x3 s2", 128, 128, 1, 56, 56, 3, 2},
                           {"1x1", 64, 256, 1, 56, 56, 1, 1},             {"1x1", 512, 128, 1, 28, 28, 1, 1},
                           {"1x1", 1024, 256, 1, 14, 14, 1, 1},           {"depthwise 3x3", 96, 96, 96, 112, 112, 3, 1},
                           {"depthwise 3x3 s2", 144, 144, 144, 56, 56, 3, 2}, {"depthwise 5x5", 240, 240, 240, 28, 28, 5, 1}};

void bench(const KernelTable& t, ThreadPool& pool, const Case& c) {
  WindowAttrs a;
  a.strides = {c.stride, c.stride};
  a.pads.assign(4, c.kernel / 2);
  int64_t high = (c.high + c.kernel / 2 * 2 - c.kernel) / c.stride + 1, wide = (c.wide + c.kernel / 2 * 2 - c.kernel) / c.stride + 1;
  int64_t kernel[] = {c.kernel, c.kernel}, per = c.channels / c.groups;
  ConvCall call{WindowSpace(a, Dims{1, c.channels, c.high, c.wide}, Dims{1, c.filters, high, wide}, kernel)};
  bool depthwise = per == 1;
  std::vector<float> x(static_cast<size_t>(c.channels * c.high * c.wide), 0.5f), y(static_cast<size_t>(c.filters * high * wide));
  std::vector<float> w(static_cast<size_t>(c.filters * conv_row(per, c.kernel * c.kernel)), 0.25f);
  call.channels = c.channels, call.filters = c.filters, call.groups = c.groups;
  call.x = x.data(), call.w = w.data(), call.y = y.data();
  call.end.act = Unary::kRelu;
  double bound = 0, seconds = 1e9, ops = 2.0 * double(y.size()) * double(per * c.kernel * c.kernel);
  for (int round = 0; round < 3; round++) {  // bound and kernel in turn: a busy neighbour hits both
    bound = std::max(bound, peak_ops(t.isa, Peak::kFma, pool));
    for (int i = 0; i < 20; i++) {
      auto start = std::chrono::steady_clock::now();
      depthwise ? conv_depthwise(t, pool, call) : conv(t, pool, call);
      seconds = std::min(seconds, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
  }
  std::printf("%-17s %4lld -> %4lld of %3lld x %-3lld %9.1f us %7.1f of %7.1f Gop/s %5.1f %%\n", c.name, (long long)c.channels,
              (long long)c.filters, (long long)c.high, (long long)c.wide, seconds * 1e6, ops / seconds / 1e9, bound / 1e9, 100 * ops / seconds / bound);
}

}  // namespace

int main(int argc, char** argv) {
  auto isa = active_isa();
  if (!isa) return std::puts("no AVX2"), 1;
  ThreadPool pool(argc > 1 ? std::atoi(argv[1]) : 0);
  std::printf("%s, %d threads\n", isa_name(*isa).data(), pool.size());
  for (const Case& c : kCases) bench(kernels(*isa), pool, c);
}
