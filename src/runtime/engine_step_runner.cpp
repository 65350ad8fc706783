#include "runtime/engine_step_runner.h"

#include <time.h>

#include <array>
#include <cstring>

#include "base/checked.h"

namespace brisk {

int64_t state_bytes_per_block(const Plan& step) {
  int64_t sum = 0;
  for (const PlanState& s : step.states)
    if (s.kind == PlanState::Kind::kPagedKv) sum += s.unit_bytes();
  return sum;
}

namespace {

constexpr size_t kInputs = 8;

// Bytes of the arrays of one step, in the order of EngineStepRunner::kInputNames.
std::array<int64_t, kInputs> input_bytes(const StepLimits& l) {
  int64_t t = l.max_tokens, s = l.max_sequences;
  return {t * 4, t * 4, (s + 1) * 4, s * 4, s * l.max_blocks_per_sequence * 4, s * 4, s * static_cast<int64_t>(sizeof(SampleParams)), s * 4};
}

std::map<std::string, int64_t> largest_sizes(const StepLimits& l) {
  return {{"T", l.max_tokens}, {"S", l.max_sequences}, {"L", l.max_sequences}, {"B", l.max_blocks_per_sequence}};
}

int64_t now_ns() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

// Device memory with its size, given back at the end.
struct DeviceMemory {
  Device* device = nullptr;
  void* data = nullptr;
  int64_t bytes = 0;

  DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory() {
    if (data) device->deallocate(data, bytes);
  }
  Status allocate(Device& d, int64_t n) {
    BRISK_ASSIGN(data, d.allocate(n));
    device = &d;
    bytes = n;
    return {};
  }
};

class EngineStepRunner final : public StepRunner {
 public:
  static Result<std::unique_ptr<StepRunner>> create(std::shared_ptr<const LoadedEngine> engine, KernelContext context,
                                                    const StepRunnerOptions& options) {
    std::unique_ptr<EngineStepRunner> r(new EngineStepRunner);
    r->engine_ = std::move(engine);
    r->limits_ = options.limits;
    BRISK_ASSIGN(r->executor_, Executor::create(r->engine_, "step", context, options.memory_limit));
    BRISK_TRY(r->find_vocabulary());
    BRISK_TRY(r->allocate_state(options));
    BRISK_TRY(r->allocate_io());
    return std::unique_ptr<StepRunner>(std::move(r));
  }

  ~EngineStepRunner() override { (void)engine_->device().synchronize(); }

  const StepLimits& limits() const override { return limits_; }
  int64_t vocab_size() const override { return vocab_; }
  int64_t max_context() const override { return engine_->content().max_context; }

  Result<Ticket> submit(const StepInput& in) override {
    BRISK_TRY(check(in));
    Slot& slot = slots_[next_ticket_ % slots_.size()];
    if (slot.outstanding) return internal("more than two steps outstanding");
    int64_t t = in.tokens(), s = in.sequences(), rows = static_cast<int64_t>(in.logit_rows.size());
    const std::array<std::pair<const void*, Dims>, kInputs> given = {{
        {in.ids.data(), {t}}, {in.positions.data(), {t}}, {in.seq_starts.data(), {s + 1}},
        {in.context_lens.data(), {s}}, {in.block_tables.data(), {s, in.table_columns}}, {in.logit_rows.data(), {rows}},
        {in.params.data(), {rows, static_cast<int64_t>(sizeof(SampleParams))}}, {in.slots.data(), {rows}}}};
    std::vector<Dims> shapes;
    std::vector<TensorView> views;
    Device& d = engine_->device();
    for (size_t i : input_order_) {
      TensorView v(input_memory_[i].data, kInputDtypes[i], given[i].second);
      d.upload(v.data, given[i].first, v.bytes());
      shapes.push_back(v.shape);
      views.push_back(v);
    }
    BRISK_TRY(executor_->bind(shapes));
    BRISK_TRY(executor_->run(views));
    auto out = executor_->outputs();
    auto fetch = [&](const char* name, auto& host, int64_t count) {
      host.resize(static_cast<size_t>(count));
      d.download(host.data(), out[output_index_.at(name)].data, count * 4);
    };
    StepOutput& o = slot.output;
    fetch(step_io::kNextIds, o.next_ids, rows);
    fetch(step_io::kLogprob, o.logprob, rows);
    bool alternatives = false;
    for (const SampleParams& p : in.params) alternatives |= p.top_logprobs > 0;
    if (alternatives) {
      fetch(step_io::kTopIds, o.top_ids, rows * kMaxTopLogprobs);
      fetch(step_io::kTopLogprobs, o.top_logprobs, rows * kMaxTopLogprobs);
    }
    if (in.want_logits) fetch(step_io::kLogits, o.logits, rows * vocab_);
    else o.logits.clear();
    slot.mark = d.record();
    slot.outstanding = true;
    return next_ticket_++;
  }

  Result<StepOutput> wait(Ticket ticket) override {
    Slot& slot = slots_[ticket % slots_.size()];
    if (!slot.outstanding || ticket >= next_ticket_) return internal("no step with ticket " + std::to_string(ticket));
    slot.outstanding = false;
    BRISK_TRY(engine_->device().wait(slot.mark));
    BRISK_TRY(engine_->content().check_mapping());
    slot.output.sampled_at_ns = now_ns();
    return slot.output;
  }

  Status reset_slot(int32_t slot, std::span<const int32_t> prompt) override {
    if (slot < 0 || slot >= limits_.max_sequences) return internal("slot " + std::to_string(slot) + " does not exist");
    if (counts_index_ < 0) return {};
    std::vector<uint16_t> counts(static_cast<size_t>(vocab_));
    for (int32_t id : prompt)
      if (id >= 0 && id < vocab_) counts[static_cast<size_t>(id)] = 0x8000;
    engine_->device().upload(static_cast<uint16_t*>(state_[static_cast<size_t>(counts_index_)]->data) + slot * vocab_,
                             counts.data(), vocab_ * 2);
    return {};
  }

 private:
  static constexpr std::array<const char*, kInputs> kInputNames = {
      step_io::kIds, step_io::kPositions, step_io::kSeqStarts, step_io::kContextLens,
      step_io::kBlockTables, step_io::kLogitRows, step_io::kSampleParams, step_io::kSlots};
  static constexpr std::array<DType, kInputs> kInputDtypes = {DType::kI32, DType::kI32, DType::kI32, DType::kI32,
                                                              DType::kI32, DType::kI32, DType::kU8, DType::kI32};

  struct Slot {
    bool outstanding = false;
    uint64_t mark = 0;
    StepOutput output;
  };

  Status find_vocabulary() {
    const Plan& plan = executor_->plan();
    for (size_t i = 0; i < plan.outputs.size(); ++i) {
      const PlanValue& v = plan.values[static_cast<size_t>(plan.outputs[i])];
      output_index_[v.name] = i;
      if (v.name == step_io::kLogits && v.shape.size() == 2) vocab_ = v.shape[1].constant_or(0);
    }
    for (const char* name : {step_io::kLogits, step_io::kNextIds, step_io::kLogprob, step_io::kTopIds, step_io::kTopLogprobs})
      if (!output_index_.count(name)) return invalid(std::string("the step function has no output '") + name + "'");
    if (vocab_ <= 0) return invalid("the step function's logits have no fixed vocabulary");
    for (int32_t v : plan.inputs) {
      const std::string& name = plan.values[static_cast<size_t>(v)].name;
      size_t i = 0;
      while (i < kInputs && name != kInputNames[i]) ++i;
      if (i == kInputs) return invalid("the step function has an unknown input '" + name + "'");
      input_order_.push_back(i);
    }
    return {};
  }

  Status allocate_state(const StepRunnerOptions& options) {
    const Plan& plan = executor_->plan();
    Device& d = engine_->device();
    for (size_t i = 0; i < plan.states.size(); ++i) {
      const PlanState& s = plan.states[i];
      auto memory = std::make_unique<DeviceMemory>();
      TensorView view;
      if (s.kind == PlanState::Kind::kPagedKv) {
        view = TensorView(nullptr, s.dtype, {limits_.blocks, 2, s.kv_heads, kBlockTokens, s.head_dim});
      } else {
        if (s.name == step_io::kTokenCounts) counts_index_ = static_cast<int>(i);
        view = TensorView(nullptr, s.dtype, {limits_.max_sequences, s.width});
      }
      BRISK_TRY(memory->allocate(d, view.bytes()));
      view.data = memory->data;
      executor_->set_state(i, view);
      state_.push_back(std::move(memory));
    }
    return {};
  }

  Status allocate_io() {
    const auto bytes = input_bytes(limits_);
    for (size_t i = 0; i < kInputs; ++i) BRISK_TRY(input_memory_[i].allocate(engine_->device(), bytes[i]));
    return executor_->reserve(largest_sizes(limits_));
  }

  // The last line of defence against a scheduler bug: nothing out of range reaches a kernel.
  Status check(const StepInput& in) const {
    int64_t t = in.tokens(), s = in.sequences(), rows = static_cast<int64_t>(in.logit_rows.size());
    auto bad = [](const char* what) { return internal(std::string("step input: ") + what); };
    if (t < 1 || t > limits_.max_tokens) return bad("token count out of range");
    if (s < 1 || s > limits_.max_sequences) return bad("sequence count out of range");
    if (rows > limits_.max_sequences || in.params.size() != in.logit_rows.size() || in.slots.size() != in.logit_rows.size())
      return bad("logit rows, parameters and slots differ in number or are too many");
    if (static_cast<int64_t>(in.positions.size()) != t || static_cast<int64_t>(in.seq_starts.size()) != s + 1)
      return bad("arrays differ in length");
    if (in.table_columns < 1 || in.table_columns > limits_.max_blocks_per_sequence ||
        static_cast<int64_t>(in.block_tables.size()) != s * in.table_columns)
      return bad("block tables have the wrong size");
    if (in.seq_starts.front() != 0 || in.seq_starts.back() != t) return bad("seq_starts do not span the tokens");
    for (int64_t i = 0; i < s; ++i) {
      auto at = static_cast<size_t>(i);
      int32_t first = in.seq_starts[at], last = in.seq_starts[at + 1], length = in.context_lens[at];
      if (last <= first) return bad("an empty sequence");
      if (length > in.table_columns * kBlockTokens || length < last - first) return bad("a context length out of range");
      for (int32_t k = first; k < last; ++k)
        if (in.positions[static_cast<size_t>(k)] != length - (last - k)) return bad("positions are not the sequence's last ones");
      for (int32_t k = 0; k * kBlockTokens < length; ++k) {
        int32_t block = in.block_tables[at * static_cast<size_t>(in.table_columns) + static_cast<size_t>(k)];
        if (block < 0 || block >= limits_.blocks) return bad("a block out of range");
      }
    }
    for (int32_t id : in.ids)
      if (id >= vocab_ || id < -limits_.max_sequences) return bad("a token id out of range");
    for (int32_t r : in.logit_rows)
      if (r < 0 || r >= t) return bad("a logit row out of range");
    for (int32_t slot : in.slots)
      if (slot < 0 || slot >= limits_.max_sequences) return bad("a slot out of range");
    return {};
  }

  std::shared_ptr<const LoadedEngine> engine_;
  std::array<DeviceMemory, kInputs> input_memory_;
  std::vector<std::unique_ptr<DeviceMemory>> state_;
  std::unique_ptr<Executor> executor_;  // declared after, so destroyed before, the memory it uses
  StepLimits limits_;
  int64_t vocab_ = 0;
  int counts_index_ = -1;
  std::vector<size_t> input_order_;
  std::map<std::string, size_t> output_index_;
  std::array<Slot, 2> slots_;
  Ticket next_ticket_ = 0;
};

}  // namespace

std::optional<int64_t> step_bytes(const Plan& step, const StepLimits& limits) {
  auto sizes = largest_sizes(limits);
  auto sum = temporary_bytes(step, [&](const std::string& name) -> std::optional<int64_t> {
    auto it = sizes.find(name);
    return it == sizes.end() ? 1 : it->second;  // as Executor::reserve()
  });
  for (int64_t bytes : input_bytes(limits))
    if (sum) sum = checked_add(*sum, bytes);
  for (const PlanState& s : step.states)
    if (auto slots = checked_mul(s.unit_bytes(), limits.max_sequences); s.kind == PlanState::Kind::kSlots && sum)
      sum = slots ? checked_add(*sum, *slots) : std::nullopt;
  return sum;
}

Result<std::unique_ptr<StepRunner>> make_step_runner(std::shared_ptr<const LoadedEngine> engine, KernelContext context,
                                                     const StepRunnerOptions& options) {
  return EngineStepRunner::create(std::move(engine), context, options);
}

}  // namespace brisk
