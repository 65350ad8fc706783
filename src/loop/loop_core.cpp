#include "loop/loop_core.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/log.h"
#include "text/tokenizer.h"

namespace brisk {
namespace {

bool uses_counts(const SampleParams& p) {
  return p.repetition_penalty != 1 || p.presence_penalty != 0 || p.frequency_penalty != 0;
}

}  // namespace

LoopCore::LoopCore(StepRunner& runner, const Tokenizer* tokenizer, const SchedOptions& sched, int steps_in_flight,
                   int64_t start_ns)
    : runner_(runner), tokenizer_(tokenizer), sched_(sched), steps_in_flight_(static_cast<size_t>(steps_in_flight)),
      start_ns_(start_ns) {}

void LoopCore::admit(std::unique_ptr<LiveRequest> request) {
  LiveRequest& l = *request;
  l.usage.prompt_tokens = static_cast<int64_t>(l.request.prompt.size());
  SchedRequest r{.id = l.id, .prompt = std::move(l.request.prompt), .max_new_tokens = l.request.max_tokens,
                 .stop_ids = l.request.stop_ids, .priority = l.request.priority, .key = l.request.key,
                 .prefix_root = l.prefix_root, .prefix_keys = std::move(l.prefix_keys)};
  if (tokenizer_ && !l.request.ignore_eos)
    r.stop_ids.insert(r.stop_ids.end(), tokenizer_->eos_ids().begin(), tokenizer_->eos_ids().end());
  if (l.request.deadline_ns > 0) r.deadline = std::max(1e-9, seconds(l.request.deadline_ns));  // 0 would be "none"
  live_.emplace(l.id, std::move(request));
  if (Status s = sched_.admit(std::move(r), seconds(l.times.arrival_ns)); !s.ok())
    end(l.id, FinishReason::kError, std::move(s).error());
}

void LoopCore::cancel(RequestId id) { end(id, FinishReason::kCancelled); }

Status LoopCore::turn() {
  std::vector<RequestId> expired;
  StepPlan plan = sched_.plan(seconds(monotonic_ns()), expired);
  for (const RequestId id : expired) end(id, FinishReason::kDeadline);
  const bool nothing = plan.empty();
  if (!nothing) BRISK_TRY(submit_step(std::move(plan)));
  if (flying_.empty()) {
    if (!sched_.idle()) return internal("the scheduler plans nothing though requests wait");
    return {};
  }
  if (nothing || flying_.size() >= steps_in_flight_) return complete_step();
  return {};
}

Status LoopCore::submit_step(StepPlan plan) {
  const int64_t now = monotonic_ns();
  for (const PlannedSequence& p : plan.sequences) {
    if (!p.first) continue;
    LiveRequest& l = *live_.at(p.id);
    leave_queue(l);
    l.times.first_scheduled_ns = now;
    l.usage.cached_tokens = sched_.cached_tokens(p.id);
    stats_.prompt_tokens += l.usage.prompt_tokens;
    const auto prompt = sched_.tokens(p.id).first(static_cast<size_t>(l.usage.prompt_tokens));
    BRISK_TRY(runner_.reset_slot(p.slot, uses_counts(l.request.sampling) ? prompt : std::span<const int32_t>()));
  }
  build_step_input(sched_, plan, [&](RequestId id) -> const SampleParams& { return live_.at(id)->request.sampling; }, input_);
  BRISK_ASSIGN(const Ticket ticket, runner_.submit(input_));
  flying_.push_back({ticket, std::move(plan), now});
  update_gauge();
  return {};
}

Status LoopCore::complete_step() {
  BRISK_ASSIGN(const StepOutput out, runner_.wait(flying_.front().ticket));
  const Flying step = std::move(flying_.front());
  flying_.pop_front();
  measure_step(step, out.sampled_at_ns);
  update_gauge();

  const auto sampled = std::ranges::count_if(step.plan.sequences, &PlannedSequence::samples);
  if (static_cast<size_t>(sampled) != out.next_ids.size())
    return internal("the device sampled " + std::to_string(out.next_ids.size()) + " ids, not " + std::to_string(sampled));
  const auto committed = sched_.commit(step.plan, out.next_ids, runner_.vocab_size());
  std::vector<size_t> rows;  // of the sampled ids, one for each committed
  size_t row = 0;
  for (const PlannedSequence& p : step.plan.sequences) {
    if (!p.samples) continue;
    // commit() passed over those that had ended.
    if (rows.size() < committed.size() && committed[rows.size()].id == p.id) rows.push_back(row);
    ++row;
  }
  // First tokens go out first: somebody waits for them.
  std::vector<size_t> later;
  for (size_t i = 0; i < rows.size(); ++i) {
    LiveRequest& l = *live_.at(committed[i].id);
    if (l.usage.completion_tokens == 0) deliver(l, committed[i], out, rows[i]);
    else later.push_back(i);
  }
  for (const size_t i : later) deliver(*live_.at(committed[i].id), committed[i], out, rows[i]);
  return {};
}

void LoopCore::measure_step(const Flying& step, int64_t sampled_at_ns) {
  // With two steps in flight the second begins when the first has ended.
  const double took = std::max(0.0, static_cast<double>(sampled_at_ns - std::max(step.submitted_ns, last_sampled_ns_)) * 1e-9);
  last_sampled_ns_ = sampled_at_ns;
  ++stats_.steps;
  stats_.step_seconds += took;
  stats_.last_step_seconds = took;
  stats_.last_step_tokens = step.plan.tokens;
  stats_.last_step_sequences = static_cast<int64_t>(step.plan.sequences.size());
  const double weight = stats_.steps == 1 ? 1 : 0.1;
  step_seconds_ += weight * (took - step_seconds_);
  token_seconds_ += weight * (took / static_cast<double>(step.plan.tokens) - token_seconds_);
}

void LoopCore::update_gauge() {
  if (flying_.empty()) {
    busy_since_ns = 0;
    return;
  }
  const Flying& oldest = flying_.front();
  predicted_ns = static_cast<int64_t>(1e9 * std::max(step_seconds_, token_seconds_ * static_cast<double>(oldest.plan.tokens)));
  busy_since_ns = std::max(oldest.submitted_ns, last_sampled_ns_);
}

std::string LoopCore::token_text(int32_t id) const {
  return tokenizer_ ? std::string(tokenizer_->token_bytes(id)) : std::string();
}

void LoopCore::add_logprobs(GenerationEvent& e, const LiveRequest& l, const StepOutput& out, size_t row) const {
  const int wanted = l.request.sampling.top_logprobs;
  if (wanted < 0 || row >= out.logprob.size()) return;
  SampledToken& t = e.logprobs.emplace_back();
  t.chosen = {e.ids.back(), token_text(e.ids.back()), out.logprob[row]};
  const size_t first = row * kMaxTopLogprobs;
  for (size_t k = first; k < first + static_cast<size_t>(wanted) && k < out.top_ids.size() && k < out.top_logprobs.size(); ++k)
    if (out.top_ids[k] >= 0) t.top.push_back({out.top_ids[k], token_text(out.top_ids[k]), out.top_logprobs[k]});
}

// One sampled token of one request. Whatever goes wrong in here ends that request alone.
void LoopCore::deliver(LiveRequest& l, const Committed& c, const StepOutput& out, size_t row) try {
  l.times.sampled_at_ns = out.sampled_at_ns;
  if (c.end == SchedEnd::kFault)
    return end(c.id, FinishReason::kError,
               internal("the model gave no valid token (id " + std::to_string(c.token) + "): its logits are not numbers?"));
  if (!l.times.first_token_ns) l.times.first_token_ns = out.sampled_at_ns;
  ++l.usage.completion_tokens;
  ++stats_.generated_tokens;

  GenerationEvent e;
  e.ids.push_back(c.token);
  add_logprobs(e, l, out, row);
  if (tokenizer_) {
    const bool hidden = (l.request.skip_special && tokenizer_->is_control(c.token)) ||
                        (c.end == SchedEnd::kStopId && !l.request.include_stop);
    if (!hidden) e.text = l.text->add(tokenizer_->token_bytes(c.token));
  }
  if (const int stop = l.text->stop(); stop >= 0) {
    e.finish = FinishReason::kStop;
    e.stop_string = l.request.stop_strings[static_cast<size_t>(stop)];
  } else if (c.end != SchedEnd::kRunning) {
    e.finish = c.end == SchedEnd::kStopId ? FinishReason::kStop : FinishReason::kLength;
    if (c.end == SchedEnd::kStopId) e.stop_id = c.token;
    e.text += l.text->finish();
  }
  emit(l, e);
} catch (const std::exception& x) {
  end(c.id, FinishReason::kError, internal(std::string("delivering a token failed: ") + x.what()));
}

// Ends a request from outside of its own tokens; nothing if it has ended.
void LoopCore::end(RequestId id, FinishReason reason, Error error) {
  const auto it = live_.find(id);
  if (it == live_.end()) return;
  try {
    GenerationEvent e;
    e.finish = reason;
    e.error = std::move(error);
    e.text = it->second->text->finish();  // what was held back for a stop string that did not come
    emit(*it->second, e);
  } catch (const std::exception& x) {
    log(LogLevel::kWarning, std::string("the last event of a request failed: ") + x.what());
    sched_.release(id);
    live_.erase(id);
  }
}

// Hands the event to the sink; the last one takes the request out of the books first, so that the sink sees it gone.
void LoopCore::emit(LiveRequest& l, GenerationEvent& event) {
  event.usage = l.usage;
  event.times = l.times;
  if (event.finish == FinishReason::kNone) return l.sink(event);
  leave_queue(l);
  count_end(event.finish);
  sched_.release(l.id);
  const auto node = live_.extract(l.id);
  if (on_books) on_books();
  node.mapped()->sink(event);
}

void LoopCore::leave_queue(LiveRequest& l) {
  if (!l.times.first_scheduled_ns) dequeued_.push_back(l.request.key);
}

void LoopCore::count_end(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop: ++stats_.finished_stop; break;
    case FinishReason::kLength: ++stats_.finished_length; break;
    case FinishReason::kCancelled: ++stats_.finished_cancelled; break;
    case FinishReason::kDeadline: ++stats_.finished_deadline; break;
    case FinishReason::kError: ++stats_.finished_error; break;
    case FinishReason::kNone: break;
  }
}

void LoopCore::end_all(const Error& error) {
  while (!live_.empty()) end(live_.begin()->first, FinishReason::kError, error);
}

void LoopCore::abandon_steps() {
  flying_.clear();
  busy_since_ns = 0;
}

const LoopStats& LoopCore::stats() {
  const SchedStats s = sched_.stats();
  stats_.running = s.running;
  stats_.waiting = s.waiting;
  stats_.prefix_queries_tokens = s.prefix_queries_tokens;
  stats_.prefix_hit_tokens = s.prefix_hit_tokens;
  stats_.preemptions = s.preemptions;
  stats_.blocks = sched_.pool().size();
  stats_.blocks_used = sched_.pool().owned();
  stats_.blocks_cached = sched_.pool().cached();
  stats_.blocks_touched = sched_.pool().touched();
  return stats_;
}

}  // namespace brisk
