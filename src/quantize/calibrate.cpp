#include "quantize/calibrate.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/checked.h"
#include "op/step_io.h"
#include "quantize/fragment.h"
#include "quantize/gptq.h"

namespace brisk {
namespace {

constexpr int64_t kBatchTokens = 4096;   // of one run of a fragment
constexpr int64_t kProductRows = 2048;   // tokens whose second moments are summed in one product

using Live = std::map<ValueId, ConstantPtr>;  // values at a cut, of one batch

// Whole sequences in batches of about kBatchTokens, as op/step_io.h wants them. Blocks are numbered from 0 in each batch.
class Batches {
 public:
  explicit Batches(const std::vector<std::vector<int32_t>>& sequences) {
    std::vector<std::vector<int32_t>> batch;
    int64_t tokens = 0;
    auto flush = [&] {
      if (!batch.empty()) add(batch);
      batch.clear(), tokens = 0;
    };
    for (auto& s : sequences) {
      if (tokens + static_cast<int64_t>(s.size()) > kBatchTokens) flush();
      batch.push_back(s);
      tokens += static_cast<int64_t>(s.size());
    }
    flush();
  }

  int64_t state_units() const { return state_units_; }

  // The graph's inputs that a fragment may read, by value.
  Result<std::vector<Live>> inputs_of(const Graph& g) const {
    std::vector<Live> all;
    for (auto& arrays : arrays_) {
      Live live;
      for (ValueId v : g.inputs)
        if (auto it = arrays.find(g.value(v).name); it != arrays.end()) live[v] = it->second;
      all.push_back(std::move(live));
    }
    return all;
  }

 private:
  void add(const std::vector<std::vector<int32_t>>& batch) {
    std::vector<int32_t> ids, positions, starts = {0}, lens, tables;
    int64_t columns = 0, blocks = 0;
    for (auto& s : batch) columns = std::max(columns, ceil_div(static_cast<int64_t>(s.size()), int64_t{kBlockTokens}));
    for (auto& s : batch) {
      ids.insert(ids.end(), s.begin(), s.end());
      for (size_t i = 0; i < s.size(); ++i) positions.push_back(static_cast<int32_t>(i));
      starts.push_back(static_cast<int32_t>(ids.size()));
      lens.push_back(static_cast<int32_t>(s.size()));
      for (int64_t c = 0; c < columns; ++c) tables.push_back(static_cast<int32_t>(blocks++));
    }
    state_units_ = std::max({state_units_, blocks, static_cast<int64_t>(batch.size())});
    auto array = [](const std::vector<int32_t>& v, Dims shape) { return make_constant(DType::kI32, shape, v); };
    auto t = static_cast<int64_t>(ids.size()), s = static_cast<int64_t>(batch.size());
    arrays_.push_back({{step_io::kIds, array(ids, {t})}, {step_io::kPositions, array(positions, {t})},
                       {step_io::kSeqStarts, array(starts, {s + 1})}, {step_io::kContextLens, array(lens, {s})},
                       {step_io::kBlockTables, array(tables, {s, columns})}});
  }

  std::vector<std::map<std::string, ConstantPtr>> arrays_;
  int64_t state_units_ = 0;
};

// Sum of x^T x over the rows of all batches: [K, K], as products that the evaluator's own kernels compute.
Result<std::vector<float>> second_moments(const std::vector<Live>& batches, ValueId v, int64_t k, Evaluator& evaluator) {
  std::vector<float> sum(static_cast<size_t>(k * k));
  for (const Live& live : batches) {
    const ConstantPtr& x = live.at(v);
    if (x->dtype != DType::kF32) return internal("calibration: the input of a Linear is " + std::string(dtype_name(x->dtype)));
    int64_t rows = x->count() / k;
    for (int64_t from = 0; from < rows; from += kProductRows) {
      int64_t n = std::min(kProductRows, rows - from);
      std::vector<float> turned(static_cast<size_t>(k * n));
      for (int64_t r = 0; r < n; ++r)
        for (int64_t i = 0; i < k; ++i) turned[static_cast<size_t>(i * n + r)] = x->as<float>()[(from + r) * k + i];
      auto xt = make_constant(DType::kF32, {k, n}, turned);
      Graph g;
      ValueId in = g.add_input("x", Type{DType::kF32, true, {Dim(k), Dim(n)}, {}});
      BRISK_ASSIGN(ValueId out, g.add(OpId::kLinear, LinearAttrs{}, {in, g.add_constant("xt", xt)}, "moments"));
      g.outputs = {out};
      BRISK_ASSIGN(auto product, evaluator.run(g, {xt}));
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += product[0]->as<float>()[i];
    }
  }
  return sum;
}

// Ids that a tokenizer gives may be none that the model has a row for.
Status check_ids(const Graph& g, const std::vector<std::vector<int32_t>>& sequences) {
  for (const Node& n : g.nodes) {
    const Constant* table = n.op == OpId::kEmbedding ? g.constant(n.inputs[0]) : nullptr;
    for (size_t s = 0; table && s < sequences.size(); ++s)
      for (int32_t id : sequences[s])
        if (id < 0 || id >= table->shape[0])
          return invalid("calibration: token " + std::to_string(id) + " outside the model's vocabulary of " + std::to_string(table->shape[0]));
  }
  return {};
}

class Calibration {
 public:
  Calibration(const Graph& step, const QuantizeOptions& o, Evaluator& e, const CalibrateOptions& how) : g_(step), evaluator_(e), how_(how) {
    QuantizeOptions first = o;
    for (auto& [v, t] : treatments(g_, o))
      if (t.rounded_to_int4) {
        const ConstantPtr& c = g_.value(v).constant;
        first.encoded.emplace(c.get(), c);  // left as it is for now
        waiting_.insert(c.get());
      }
    original_ = g_;
    options_ = first;
  }

  Result<std::map<const Constant*, ConstantPtr>> run(const std::vector<std::vector<int32_t>>& sequences) {
    BRISK_TRY(check_ids(g_, sequences));
    BRISK_ASSIGN(auto report, apply_precision(g_, options_));
    Batches batches(sequences);
    BRISK_ASSIGN(live_, batches.inputs_of(g_));
    auto stops = find_stops();
    size_t from = 0;
    for (size_t i = 0; i < stops.size(); ++i) {
      if (how_.progress) how_.progress(static_cast<double>(i) / static_cast<double>(stops.size()));
      BRISK_TRY(advance(from, stops[i], batches.state_units()));
      from = stops[i];
      BRISK_TRY(quantize_readers(g_.nodes[from].inputs[0]));
    }
    std::map<const Constant*, ConstantPtr> encoded;
    for (auto& [v, t] : treatments(original_, {}))
      if (const Constant* c = original_.constant(v); !waiting_.count(c)) encoded.emplace(c, g_.value(v).constant);
    return encoded;
  }

 private:
  bool waits(const Node& n) const {
    return n.op == OpId::kLinear && g_.constant(n.inputs[1]) && waiting_.count(g_.constant(n.inputs[1])) && !g_.constant(n.inputs[0]);
  }

  // Nodes before which something is quantised: the first reader of each value that such a Linear reads.
  std::vector<size_t> find_stops() const {
    std::vector<size_t> stops;
    std::set<ValueId> seen;
    for (size_t i = 0; i < g_.nodes.size(); ++i)
      if (waits(g_.nodes[i]) && seen.insert(g_.nodes[i].inputs[0]).second) stops.push_back(i);
    return stops;
  }

  // Runs nodes [from, to) for each batch and drops what nobody reads any more.
  Status advance(size_t from, size_t to, int64_t state_units) {
    if (from == to) return {};
    Fragment f = cut(g_, from, to);
    std::vector<std::vector<ConstantPtr>> inputs;
    for (Live& live : live_) {
      auto& list = inputs.emplace_back();
      for (ValueId v : f.inputs) {
        auto it = live.find(v);
        if (it == live.end()) return internal("calibration: no value for '" + g_.value(v).name + "'");
        list.push_back(it->second);
      }
    }
    BRISK_ASSIGN(auto outputs, evaluator_.run_each(f.graph, inputs, state_units));
    std::set<ValueId> later;
    for (size_t i = to; i < g_.nodes.size(); ++i) later.insert(g_.nodes[i].inputs.begin(), g_.nodes[i].inputs.end());
    for (size_t b = 0; b < live_.size(); ++b) {
      for (size_t i = 0; i < f.outputs.size(); ++i) live_[b][f.outputs[i]] = outputs[b][i];
      std::erase_if(live_[b], [&](auto& entry) { return !later.count(entry.first); });
    }
    return {};
  }

  Status quantize_readers(ValueId x) {
    std::optional<Gptq> gptq;
    for (const Node& n : g_.nodes) {
      if (!waits(n) || n.inputs[0] != x) continue;
      ConstantPtr before = g_.value(n.inputs[1]).constant;
      int64_t k = before->shape[before->shape.rank - 1];
      if (!gptq) {
        BRISK_ASSIGN(auto h, second_moments(live_, x, k, evaluator_));
        GptqOptions o;
        o.group = kInt4Group;
        o.threads = how_.threads;
        auto made = Gptq::create(std::move(h), k, o);
        if (!made.ok()) return std::move(made).error().in("'" + n.name + "'");
        gptq = std::move(*made);
      }
      ConstantPtr after = gptq->quantize(*before);
      for (Value& v : g_.values)
        if (v.constant == before) v.constant = after, v.type.dtype = after->dtype;
      waiting_.erase(before.get());
    }
    return {};
  }

  Graph g_, original_;
  QuantizeOptions options_;
  Evaluator& evaluator_;
  const CalibrateOptions& how_;
  std::set<const Constant*> waiting_;  // weights still to be quantised
  std::vector<Live> live_;
};

}  // namespace

bool calibration_pays(const Graph& g, const QuantizeOptions& options) {
  auto all = treatments(g, options);
  return std::any_of(all.begin(), all.end(), [](auto& entry) { return entry.second.rounded_to_int4; });
}

Result<std::map<const Constant*, ConstantPtr>> calibrate_int4(const Graph& step, const QuantizeOptions& options,
                                                              const std::vector<std::vector<int32_t>>& sequences,
                                                              Evaluator& evaluator, const CalibrateOptions& how) {
  return Calibration(step, options, evaluator, how).run(sequences);
}

}  // namespace brisk
