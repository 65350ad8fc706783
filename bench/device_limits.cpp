// What this machine can do at most, as one JSON object: read bandwidth over a buffer of so many bytes, and the peak of
// each kind of instruction that its kernels use, with so many threads. Other programs print percent of these.
// usage: device_limits THREADS [MIB 256]
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "bench/cpu_limits.h"

using namespace brisk::cpu;

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 0, mib = argc > 2 ? std::atoi(argv[2]) : 256;
  if (argc < 2 || threads < 0 || mib < 1) {
    std::fputs("usage: device_limits THREADS (0: all) [MIB]\n", stderr);
    return 2;
  }
  const auto isa = active_isa();
  if (!isa) {
    std::fputs("device_limits: this processor has no instruction set with kernels\n", stderr);
    return 1;
  }
  ThreadPool pool(threads);
  const size_t bytes = size_t(mib) << 20;
  std::unique_ptr<std::byte, decltype(&std::free)> buffer(static_cast<std::byte*>(std::aligned_alloc(4096, bytes)), &std::free);
  if (!buffer) {
    std::fprintf(stderr, "device_limits: no memory for a buffer of %d MiB\n", mib);
    return 1;
  }
  std::memset(buffer.get(), 1, bytes);  // pages of its own, not the one of zeros
  std::printf("{\"isa\": \"%s\", \"threads\": %d, \"bytes\": %zu, \"read_bytes_per_s\": %.4g, \"fp32_ops\": %.4g, \"int8_ops\": %.4g",
              std::string(isa_name(*isa)).c_str(), pool.size(), bytes, read_bandwidth(pool, buffer.get(), bytes),
              peak_ops(*isa, Peak::kFma, pool), peak_ops(*isa, Peak::kInt8, pool));
  if (*isa >= Isa::kAvx512Bf16) std::printf(", \"bf16_ops\": %.4g", peak_ops(*isa, Peak::kBf16, pool));
  std::printf("}\n");
}
