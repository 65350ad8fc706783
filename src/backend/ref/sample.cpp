#include <algorithm>

#include "backend/ref/groups.h"
#include "op/sampler.h"

namespace brisk::ref {
namespace {

// Operands: logits, params, slots, counts state, last_ids state.
Status sample(KernelContext&, const KernelArgs& a) {
  int64_t rows = a.in[0].shape[0], vocab = a.in[0].shape[1], slots = a.in[4].count();
  std::vector<float> scratch;
  for (int64_t r = 0; r < rows; ++r) {
    int32_t slot = a.in[2].as<int32_t>()[r];
    if (slot < 0 || slot >= slots) return internal("slot " + std::to_string(slot) + " outside [0, " + std::to_string(slots) + ")");
    SampleParams p;
    std::memcpy(&p, a.in[1].as<char>() + r * static_cast<int64_t>(sizeof p), sizeof p);
    std::span<uint16_t> counts(a.in[3].as<uint16_t>() + slot * vocab, static_cast<size_t>(vocab));
    auto row = sample_row({a.in[0].as<float>() + r * vocab, static_cast<size_t>(vocab)}, counts, p, scratch,
                          a.out[2].as<int32_t>() + r * kMaxTopLogprobs, a.out[3].as<float>() + r * kMaxTopLogprobs);
    count_token(counts, row.id);
    a.in[4].as<int32_t>()[slot] = std::max(row.id, 0);  // a step that is on its way already still reads a token
    a.out[0].as<int32_t>()[r] = row.id;
    a.out[1].as<float>()[r] = row.logprob;
  }
  return {};
}

}  // namespace

void add_sample(Registry& r) { add(r, OpId::kSample, sample); }

}  // namespace brisk::ref
