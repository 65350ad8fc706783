#include "convert/check.h"

#include <algorithm>
#include <cmath>

#include "op/step_io.h"

namespace brisk::convert {
namespace {

constexpr double kF32 = 1e-3, kNarrow = 5e-2;  // sums in another order; source graphs that round to 16 bits between nodes

using Ids = std::vector<int32_t>;

Ids some_ids(int64_t n, int64_t vocab, uint32_t seed) {
  Ids ids;
  for (int64_t i = 0; i < n; ++i) {
    seed = seed * 1664525u + 1013904223u;
    ids.push_back(static_cast<int32_t>((seed >> 8) % static_cast<uint32_t>(vocab)));
  }
  return ids;
}

ConstantPtr numbers(DType t, const Dims& shape, const std::vector<int64_t>& v) {
  if (t == DType::kI64) return make_constant(t, shape, v);
  if (t == DType::kI32) return make_constant(t, shape, Ids(v.begin(), v.end()));
  if (t == DType::kF32) return make_constant(t, shape, std::vector<float>(v.begin(), v.end()));
  return make_constant(t, shape, std::vector<uint8_t>(v.begin(), v.end()));
}

// The source's inputs for one whole sequence without a past.
std::vector<ConstantPtr> source_inputs(const Graph& g, const DecoderIo& io, const Facts& facts, const Ids& ids) {
  auto n = static_cast<int64_t>(ids.size());
  std::vector<int64_t> ones(ids.size(), 1), places(ids.size());
  for (size_t i = 0; i < places.size(); ++i) places[i] = static_cast<int64_t>(i);
  std::vector<ConstantPtr> in;
  for (ValueId v : g.inputs) {
    const Type& t = g.value(v).type;
    if (v == io.ids) in.push_back(numbers(t.dtype, {1, n}, std::vector<int64_t>(ids.begin(), ids.end())));
    else if (v == io.mask) in.push_back(numbers(t.dtype, {1, n}, ones));
    else if (v == io.positions) in.push_back(numbers(t.dtype, {1, n}, places));
    else {
      Dims shape{1, t.shape[1].constant_or(0), 0, t.shape[3].constant_or(0)};
      for (auto& [id, a] : facts.attention)
        if (a.kv.past_k == v || a.kv.past_v == v) {
          if (!shape[1]) shape[1] = a.kv.kv_heads;
          if (!shape[3]) shape[3] = a.kv.size;
        }
      auto empty = std::make_shared<Constant>();
      empty->dtype = t.dtype;
      empty->shape = shape;
      in.push_back(empty);
    }
  }
  return in;
}

// Chunks of both sequences, then single tokens.
struct Slice {
  int64_t from, to;
};
std::vector<std::vector<Slice>> schedule(const std::vector<Ids>& sequences) {
  std::vector<std::vector<Slice>> steps;
  std::vector<int64_t> at(sequences.size(), 0);
  for (int64_t round = 0;; ++round) {
    std::vector<Slice> now;
    bool any = false;
    for (size_t s = 0; s < sequences.size(); ++s) {
      auto n = static_cast<int64_t>(sequences[s].size());
      int64_t left = n - at[s], chunk = round < 2 ? std::max<int64_t>(1, (left - 2) / (round == 0 ? 3 : 1) + static_cast<int64_t>(s)) : 1;
      chunk = std::min(chunk, left);
      now.push_back({at[s], at[s] + chunk});
      at[s] += chunk;
      any = any || chunk > 0;
    }
    if (!any) return steps;
    steps.push_back(now);
  }
}

std::vector<ConstantPtr> step_inputs(const Graph& g, const std::vector<Ids>& sequences, const std::vector<Slice>& now, int64_t columns) {
  std::vector<int64_t> ids, positions, starts = {0}, lens, tables, rows, slots;
  for (size_t s = 0; s < sequences.size(); ++s) {
    if (now[s].from == now[s].to) continue;
    for (int64_t p = now[s].from; p < now[s].to; ++p) {
      ids.push_back(sequences[s][static_cast<size_t>(p)]);
      positions.push_back(p);
      rows.push_back(static_cast<int64_t>(rows.size()));
      slots.push_back(static_cast<int64_t>(slots.size()));  // Sample writes each row's: no two rows share one
    }
    starts.push_back(static_cast<int64_t>(ids.size()));
    lens.push_back(now[s].to);
    for (int64_t c = 0; c < columns; ++c) tables.push_back(c * static_cast<int64_t>(sequences.size()) + static_cast<int64_t>(s));
  }
  auto t = static_cast<int64_t>(ids.size()), n = static_cast<int64_t>(lens.size());
  std::vector<SampleParams> params(ids.size());
  std::map<std::string, ConstantPtr> all = {
      {step_io::kIds, numbers(DType::kI32, {t}, ids)}, {step_io::kPositions, numbers(DType::kI32, {t}, positions)},
      {step_io::kSeqStarts, numbers(DType::kI32, {n + 1}, starts)}, {step_io::kContextLens, numbers(DType::kI32, {n}, lens)},
      {step_io::kBlockTables, numbers(DType::kI32, {n, columns}, tables)}, {step_io::kLogitRows, numbers(DType::kI32, {t}, rows)},
      {step_io::kSampleParams, make_constant(DType::kU8, {t, static_cast<int64_t>(sizeof(SampleParams))}, params)},
      {step_io::kSlots, numbers(DType::kI32, {t}, slots)}};
  std::vector<ConstantPtr> in;
  for (ValueId v : g.inputs) in.push_back(all.at(g.value(v).name));
  return in;
}

bool has_narrow_floats(const Graph& g) {
  return std::any_of(g.nodes.begin(), g.nodes.end(), [&](const Node& n) {
    return std::any_of(n.outputs.begin(), n.outputs.end(), [&](ValueId v) {
      return v >= 0 && (g.value(v).type.dtype == DType::kF16 || g.value(v).type.dtype == DType::kBF16);
    });
  });
}

}  // namespace

Status check(const Graph& source, const DecoderIo& io, const Facts& facts, const Graph& step, Evaluator& evaluator, double& largest) {
  int64_t window = 0;
  for (auto& [id, a] : facts.attention)
    if (a.sees.window <= 64) window = std::max(window, a.sees.window);
  std::vector<Ids> sequences = {some_ids(std::min(facts.limit, window + 13), io.vocab, 1), some_ids(std::min(facts.limit, window / 2 + 7), io.vocab, 2)};
  std::vector<std::vector<ConstantPtr>> whole, parts;
  for (auto& s : sequences) whole.push_back(source_inputs(source, io, facts, s));
  auto steps = schedule(sequences);
  int64_t columns = (static_cast<int64_t>(sequences[0].size()) + kBlockTokens - 1) / kBlockTokens;
  for (auto& now : steps) parts.push_back(step_inputs(step, sequences, now, columns));

  Graph logits_only = source;
  logits_only.outputs = {io.logits};
  BRISK_ASSIGN(auto want, evaluator.run_each(logits_only, whole, 0));
  const int64_t blocks = columns * static_cast<int64_t>(sequences.size()), rows = static_cast<int64_t>(sequences[0].size() + sequences[1].size());
  BRISK_ASSIGN(auto have, evaluator.run_each(step, parts, std::max(blocks, rows)));

  std::vector<std::vector<float>> expected;
  double peak = 0, worst = 0;
  for (auto& w : want) {
    expected.push_back(to_floats(*w[0]));
    for (float f : expected.back()) peak = std::max(peak, std::abs(static_cast<double>(f)));
  }
  std::string where;
  for (size_t i = 0; i < steps.size(); ++i) {
    auto got = to_floats(*have[i][0]);
    size_t at = 0;
    for (size_t s = 0; s < sequences.size(); ++s)
      for (int64_t p = steps[i][s].from; p < steps[i][s].to; ++p)
        for (int64_t k = 0; k < io.vocab; ++k, ++at) {
          double d = std::abs(static_cast<double>(got[at]) - static_cast<double>(expected[s][static_cast<size_t>(p * io.vocab + k)]));
          if (d <= worst) continue;  // a difference that is no number fails below
          worst = std::isfinite(d) ? d : INFINITY;
          where = "sequence " + std::to_string(s) + ", position " + std::to_string(p);
        }
  }
  largest = peak > 0 ? worst / peak : worst;
  double allowed = has_narrow_floats(source) ? kNarrow : kF32;
  if (!(largest <= allowed))
    return internal("the converted decoder answers differently: " + where + " is off by " + std::to_string(largest) + " of the largest logit, allowed " + std::to_string(allowed));
  return {};
}

}  // namespace brisk::convert
