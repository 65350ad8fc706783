#include "server/call.h"

#include <ctime>

namespace brisk {

ApiError refusal_error(Refusal refusal, const Error& error) {
  switch (refusal) {
    case Refusal::kQueueFull: return {503, error.message, "", "queue_full", 1};
    case Refusal::kKeyLimit: return {429, error.message, "", "rate_limit_exceeded", 1};
    case Refusal::kDraining: return {503, error.message, "", "draining", 5};
    case Refusal::kUnhealthy: return {503, error.message, "", "unhealthy", 30};
    default: break;
  }
  return {error.kind == ErrorKind::kInvalid ? 400 : 500, error.message, "", error.kind == ErrorKind::kInvalid ? "invalid_value" : "internal_error"};
}

Call::Call(std::shared_ptr<Exchange> exchange, ModelMetrics* metrics, ParsedCall parsed)
    : exchange_(std::move(exchange)), metrics_(metrics), model_(parsed.model), requests_(std::move(parsed.requests)), stream_(parsed.stream) {
  style_.chat = parsed.chat;
  style_.id = (parsed.chat ? "chatcmpl-" : "cmpl-") + exchange_->request_id;
  style_.created = static_cast<int64_t>(std::time(nullptr));
  style_.model = model_->name;
  style_.logprobs = parsed.logprobs;
  style_.return_ids = parsed.return_ids;
  style_.include_usage = parsed.include_usage;
  style_.debug_timing = parsed.debug_timing;
  choices_.resize(requests_.size());
  open_ = choices_.size();
  if (style_.return_ids)
    for (size_t i = 0; i < choices_.size(); ++i) choices_[i].prompt = requests_[i].prompt;
}

void Call::submit() {
  std::vector<RequestHandle> handles;
  ApiError refused;
  refused.status = 0;
  for (size_t i = 0; i < requests_.size(); ++i) {
    Refusal refusal = Refusal::kNone;
    auto sink = [self = shared_from_this(), i](const GenerationEvent& e) {
      // A stream's first token goes out before the next step takes all cores.
      const bool first = self->stream_ && e.times.sampled_at_ns == e.times.first_token_ns && !e.ids.empty();
      self->exchange_->post([self, i, copy = std::make_shared<GenerationEvent>(e),
                             hold = first ? self->model_->loop->hold_step() : nullptr] {
        self->on_event(i, *copy);
        if (hold) self->exchange_->keep_until_sent(hold);
      });
    };
    auto handle = model_->loop->submit(std::move(requests_[i]), std::move(sink), &refusal);
    if (!handle.ok()) {
      refused = refusal_error(refusal, handle.error());
      break;
    }
    handles.push_back(*handle);
  }
  exchange_->post([self = shared_from_this(), handles = std::move(handles), refused]() mutable { self->started(std::move(handles), std::move(refused)); });
}

void Call::started(std::vector<RequestHandle> handles, ApiError refused) {
  handles_ = std::move(handles);
  if (refused.status || exchange_->gone()) {
    cancel();
    if (!refused.status) return;
    HttpHeaders more;
    if (refused.retry_after_s) more.emplace_back("Retry-After", std::to_string(refused.retry_after_s));
    return exchange_->respond(refused.status, "application/json", error_json(refused), more);
  }
  started_ = true;
  exchange_->on_gone([self = shared_from_this()] { self->cancel(); });
  auto early = std::move(early_);
  for (auto& [index, event] : early) on_event(index, event);
}

void Call::cancel() {
  over_ = true;
  for (RequestHandle h : handles_) model_->loop->cancel(h);
}

void Call::measure(Choice& c, const GenerationEvent& e) {
  if (e.ids.empty()) return;
  auto seconds = [](int64_t from, int64_t to) { return static_cast<double>(to - from) * 1e-9; };
  if (c.times.sampled_at_ns == 0) {
    metrics_->time_to_first_token.observe(seconds(e.times.arrival_ns, e.times.sampled_at_ns));
    metrics_->queue_time.observe(seconds(e.times.arrival_ns, e.times.first_scheduled_ns));
  } else {
    metrics_->inter_token_latency.observe(seconds(c.times.sampled_at_ns, e.times.sampled_at_ns));
  }
  if (e.finish == FinishReason::kStop || e.finish == FinishReason::kLength)
    metrics_->e2e_latency.observe(seconds(e.times.arrival_ns, e.times.sampled_at_ns));
}

void Call::keep(Choice& c, const GenerationEvent& e) {
  c.finish = e.finish;
  c.stop_string = e.stop_string;
  c.usage = e.usage;
  if (!e.ids.empty()) c.times = e.times;
  if (stream_) return;
  c.text += e.text;
  c.ids.insert(c.ids.end(), e.ids.begin(), e.ids.end());
  c.logprobs.insert(c.logprobs.end(), e.logprobs.begin(), e.logprobs.end());
}

void Call::on_event(size_t index, const GenerationEvent& e) {
  if (over_) return;
  if (!started_) {
    early_.emplace_back(index, e);
    return;
  }
  if (e.finish == FinishReason::kError || e.finish == FinishReason::kDeadline || e.finish == FinishReason::kCancelled) return fail(e);
  Choice& c = choices_[index];
  const bool first = c.times.sampled_at_ns == 0;
  measure(c, e);
  if (stream_) {
    // The status line waits for the first event: a request that fails before has a status of its own.
    if (!begun_) exchange_->begin(200, "text/event-stream");
    begun_ = true;
    chunk_.clear();
    write_chunk(chunk_, style_, index, c, e, first);
    if (e.finish == FinishReason::kNone || open_ > 1) exchange_->write(chunk_);
  }
  keep(c, e);
  if (e.finish != FinishReason::kNone && --open_ == 0) finish();
}

void Call::finish() {
  over_ = true;
  if (!stream_) return exchange_->respond(200, "application/json", whole_answer(style_, choices_));
  if (style_.include_usage) write_usage_chunk(chunk_, style_, choices_);  // after the last chunk, in one piece with it
  chunk_ += "data: [DONE]\n\n";
  exchange_->write(chunk_);
  exchange_->end();
}

void Call::fail(const GenerationEvent& e) {
  cancel();
  ApiError error{500, e.error.message, "", "internal_error"};
  if (e.finish == FinishReason::kDeadline) error = {504, "the deadline passed", "", "deadline_exceeded"};
  else if (e.error.kind == ErrorKind::kEnvironment) error = {503, e.error.message, "", "unavailable", 5};
  if (error.message.empty()) error.message = "the request was ended by the server";
  if (!begun_) return exchange_->respond(error.status, "application/json", error_json(error));
  exchange_->write("data: " + error_json(error) + "\n\ndata: [DONE]\n\n");
  exchange_->end();
}

}  // namespace brisk
