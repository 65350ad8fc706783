#include "backend/cpu/kv_cache.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/rope.h"
#include "base/checked.h"

namespace brisk::cpu {
namespace {

constexpr int64_t kFewTokens = 4;  // not worth waking a thread

// One head's key and value of one token, in the element type of the cache.
template <class T>
void scatter(const KvLayout& l, int j, const T* k, const T* v, std::byte* keys, std::byte* values) {
  T* to_k = reinterpret_cast<T*>(keys);
  T* to_v = reinterpret_cast<T*>(values);
  for (int i = 0; i < l.head_dim; i++) to_k[l.key_element(j, i)] = k[i];
  if (l.value_panels() && l.type != CacheType::kBf16) {
    for (int i = 0; i < l.head_dim; i += 32) std::memcpy(to_v + l.value_element(j, i), v + i, 32 * sizeof(T));
  } else {
    for (int i = 0; i < l.head_dim; i++) to_v[l.value_element(j, i)] = v[i];
  }
}

class Writer {
 public:
  Writer(const KernelTable& t, const KvWriteCall& c) : t_(t), c_(c) {}

  // `last`: no later token of the sequence is written in this step.
  void token(int64_t index, int64_t sequence, bool last) const {
    const KvLayout& l = c_.layout;
    int32_t position = c_.positions[index];
    int64_t block = c_.block_tables[sequence * c_.table_columns + position / kBlockTokens];
    int j = position % kBlockTokens;
    RopeAngles angles(t_, c_.rope, position);
    alignas(64) float key[kMaxHeadDim];
    alignas(64) uint16_t k16[kMaxHeadDim], v16[kMaxHeadDim];
    for (int h = 0; h < l.kv_heads; h++) {
      angles.rotate(c_.k + index * c_.ld_k + h * l.head_dim, l.head_dim, 1.0f, key);
      const float* value = c_.v + index * c_.ld_v + h * l.head_dim;
      std::byte* keys = static_cast<std::byte*>(c_.state) + l.head_offset(block, 0, h);
      std::byte* values = static_cast<std::byte*>(c_.state) + l.head_offset(block, 1, h);
      if (l.type == CacheType::kF32) {
        scatter(l, j, key, value, keys, values);
        continue;
      }
      auto narrow = l.type == CacheType::kBf16 ? t_.to_bf16 : t_.to_f16;
      narrow(key, l.head_dim, k16);
      narrow(value, l.head_dim, v16);
      scatter(l, j, k16, v16, keys, values);
      if (last && j % 2 == 0 && l.type == CacheType::kBf16 && l.value_panels())
        for (int i = 0; i < l.head_dim; i++) reinterpret_cast<uint16_t*>(values)[l.value_element(j + 1, i)] = 0;
    }
  }

 private:
  const KernelTable& t_;
  const KvWriteCall& c_;
};

}  // namespace

void write_kv(const KernelTable& t, const KvWriteCall& c, ThreadPool& pool) {
  int64_t tokens = c.seq_starts[c.sequences];
  int64_t per_chunk = tokens <= kFewTokens ? kFewTokens : std::max<int64_t>(kFewTokens, tokens / (pool.size() * 8));
  Writer writer(t, c);
  pool.parallel_for(ceil_div(tokens, per_chunk), [&](int64_t chunk, int) {
    int64_t first = chunk * per_chunk, end = std::min(tokens, first + per_chunk);
    int64_t s = std::upper_bound(c.seq_starts, c.seq_starts + c.sequences + 1, static_cast<int32_t>(first)) - c.seq_starts - 1;
    for (int64_t i = first; i < end; i++) {
      while (i >= c.seq_starts[s + 1]) s++;
      writer.token(i, s, i + 1 == c.seq_starts[s + 1]);
    }
  });
}

}  // namespace brisk::cpu
