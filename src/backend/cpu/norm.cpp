#include "backend/cpu/norm.h"

#include <algorithm>
#include <vector>

#include "base/checked.h"

namespace brisk::cpu {

int64_t prepared_bytes(const PrepareCall& c) {
  int64_t bytes = 0;
  if (c.arithmetic == Arithmetic::kInt8) bytes = static_cast<int64_t>(c.form.bytes(c.m));
  if (c.arithmetic == Arithmetic::kBf16Dot) bytes = c.m * align_up(c.k, 2) * 2;
  if (c.arithmetic == Arithmetic::kFloat && c.norm) bytes = c.m * c.k * 4;
  return align_up(bytes, 64);
}

void prepare_rows(const KernelTable& t, const PrepareCall& c, void* buffer, ThreadPool& pool, LinearCall& out) {
  out.x = c.x;
  out.ldx = c.ldx;
  if (c.arithmetic == Arithmetic::kFloat && !c.norm) return;
  if (c.arithmetic == Arithmetic::kInt8) {
    out.q = QuantizedRows(c.form, c.m, buffer);
  } else {
    out.x = buffer;
    out.ldx = c.arithmetic == Arithmetic::kFloat ? c.k : align_up(c.k, 2);
  }
  auto row = [&](int64_t r) {
    const float* x = c.x + r * c.ldx;
    if (c.norm) {
      thread_local std::vector<float> scratch;
      float* normed = static_cast<float*>(buffer) + r * c.k;
      if (c.arithmetic != Arithmetic::kFloat) {
        if (static_cast<int64_t>(scratch.size()) < c.k) scratch.resize(static_cast<size_t>(c.k));
        normed = scratch.data();
      }
      t.rms_norm(x, c.norm, c.k, c.epsilon, normed);
      x = normed;
    }
    if (c.arithmetic == Arithmetic::kInt8) out.q.quantize_row(t, x, r);
    if (c.arithmetic == Arithmetic::kBf16Dot) t.round_row_bf16(x, c.k, static_cast<uint16_t*>(buffer) + r * out.ldx);
  };
  int64_t per_chunk = std::max<int64_t>(1, 16384 / std::max<int64_t>(c.k, 1));  // a few microseconds: not worth a thread
  pool.parallel_for(ceil_div(c.m, per_chunk), [&](int64_t chunk, int) {
    for (int64_t r = chunk * per_chunk; r < std::min(c.m, (chunk + 1) * per_chunk); r++) row(r);
  });
}

}  // namespace brisk::cpu
