#include "bench/cpu_limits.h"

#include <immintrin.h>

#include <algorithm>
#include <chrono>

namespace brisk::cpu {
namespace {

constexpr long kLoops = 400'000;
constexpr int kChains = 12;  // enough independent accumulators for latency 5 at two a cycle

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Keeps the compiler from folding the loop.
#define BRISK_KEEP(a)                                                                                                \
  asm volatile("" : "+v"(a[0]), "+v"(a[1]), "+v"(a[2]), "+v"(a[3]), "+v"(a[4]), "+v"(a[5]), "+v"(a[6]), "+v"(a[7]), \
               "+v"(a[8]), "+v"(a[9]), "+v"(a[10]), "+v"(a[11]))

__attribute__((target("avx512f"))) void fma512() {
  __m512 a[kChains], b = _mm512_set1_ps(1), c = _mm512_set1_ps(2);
  for (auto& x : a) x = _mm512_setzero_ps();
  for (long i = 0; i < kLoops; i++) {
    for (auto& x : a) x = _mm512_fmadd_ps(b, c, x);
    BRISK_KEEP(a);
  }
}
__attribute__((target("avx512f,avx512vnni"))) void dot512() {
  __m512i a[kChains], b = _mm512_set1_epi8(1), c = _mm512_set1_epi8(2);
  for (auto& x : a) x = _mm512_setzero_si512();
  for (long i = 0; i < kLoops; i++) {
    for (auto& x : a) x = _mm512_dpbusd_epi32(x, b, c);
    BRISK_KEEP(a);
  }
}
__attribute__((target("avx512f,avx512bf16"))) void bf16_512() {
  __m512 a[kChains];
  __m512i one = _mm512_set1_epi32(0x3f803f80);
  for (auto& x : a) x = _mm512_setzero_ps();
  for (long i = 0; i < kLoops; i++) {
    for (auto& x : a) x = _mm512_dpbf16_ps(x, (__m512bh)one, (__m512bh)one);
    BRISK_KEEP(a);
  }
}
__attribute__((target("avx2,fma"))) void fma256() {
  __m256 a[kChains], b = _mm256_set1_ps(1), c = _mm256_set1_ps(2);
  for (auto& x : a) x = _mm256_setzero_ps();
  for (long i = 0; i < kLoops; i++) {
    for (auto& x : a) x = _mm256_fmadd_ps(b, c, x);
    BRISK_KEEP(a);
  }
}
__attribute__((target("avx2,avxvnni"))) void dot256() {
  __m256i a[kChains], b = _mm256_set1_epi8(1), c = _mm256_set1_epi8(2);
  for (auto& x : a) x = _mm256_setzero_si256();
  for (long i = 0; i < kLoops; i++) {
    for (auto& x : a) x = _mm256_dpbusd_avx_epi32(x, b, c);
    BRISK_KEEP(a);
  }
}
__attribute__((target("avx2"))) void madd256() {  // without VNNI: three instructions for 32 products
  __m256i a[kChains], b = _mm256_set1_epi8(1), one = _mm256_set1_epi16(1);
  for (auto& x : a) x = _mm256_setzero_si256();
  for (long i = 0; i < kLoops; i++) {
    for (auto& x : a) x = _mm256_add_epi32(x, _mm256_madd_epi16(_mm256_maddubs_epi16(b, x), one));
    BRISK_KEEP(a);
  }
}
__attribute__((target("avx2"))) void read_range(const std::byte* p, size_t bytes) {
  __m256i s[4] = {};
  for (size_t i = 0; i + 128 <= bytes; i += 128)
    for (int j = 0; j < 4; j++)
      s[j] = _mm256_xor_si256(s[j], _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + i) + j));
  s[0] = _mm256_xor_si256(_mm256_xor_si256(s[0], s[1]), _mm256_xor_si256(s[2], s[3]));
  asm volatile("" ::"x"(s[0]));
}

}  // namespace

double peak_ops(Isa isa, Peak kind, ThreadPool& pool) {
  void (*f)() = nullptr;
  double lanes = 0;
  bool wide = isa >= Isa::kAvx512;
  if (kind == Peak::kFma) f = wide ? fma512 : fma256, lanes = wide ? 16 : 8;
  if (kind == Peak::kBf16) f = bf16_512, lanes = 32;
  if (kind == Peak::kInt8) {
    f = isa >= Isa::kAvx512Vnni ? dot512 : isa == Isa::kAvx2Vnni ? dot256 : madd256;
    lanes = isa >= Isa::kAvx512Vnni ? 64 : 32;
  }
  int64_t chunks = pool.size() * 4;
  double best = 1e9;
  for (int i = 0; i < 5; i++) {
    double t = now();
    pool.parallel_for(chunks, [&](int64_t, int) { f(); });
    best = std::min(best, now() - t);
  }
  return 2.0 * lanes * kChains * kLoops * double(chunks) / best;
}

double read_bandwidth(ThreadPool& pool, const std::byte* p, size_t bytes) {
  constexpr size_t kChunk = 1 << 20;
  double best = 1e9;
  for (int i = 0; i < 6; i++) {
    double t = now();
    pool.parallel_for(int64_t((bytes + kChunk - 1) / kChunk), [&](int64_t c, int) {
      read_range(p + size_t(c) * kChunk, std::min(kChunk, bytes - size_t(c) * kChunk));
    });
    best = std::min(best, now() - t);
  }
  return double(bytes) / best;
}

}  // namespace brisk::cpu
