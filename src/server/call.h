// One call of /v1/completions or /v1/chat/completions, from its body to the end of its answer.
//
//   worker thread  parse, tokenise, submit       loop thread  copies each event, posts it; with a stream's first token
//                                                             it also holds the next step until that token is sent
//   I/O thread     everything else: chunks, cancel when the client goes
#pragma once
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "server/answer.h"
#include "server/http.h"
#include "server/metrics.h"
#include "server/request.h"

namespace brisk {

class Call : public std::enable_shared_from_this<Call> {
 public:
  // `metrics` outlives the call.
  Call(std::shared_ptr<Exchange> exchange, ModelMetrics* metrics, ParsedCall parsed);
  void submit();  // on a worker thread

 private:
  void started(std::vector<RequestHandle> handles, ApiError refusal);  // all below on the I/O thread
  void on_event(size_t index, const GenerationEvent& e);
  void measure(Choice& choice, const GenerationEvent& e);
  void keep(Choice& choice, const GenerationEvent& e);
  void fail(const GenerationEvent& e);
  void finish();
  void cancel();

  std::shared_ptr<Exchange> exchange_;
  ModelMetrics* metrics_;
  const ServedModel* model_;
  std::vector<GenerationRequest> requests_;
  bool stream_;
  AnswerStyle style_;
  std::vector<Choice> choices_;
  std::vector<RequestHandle> handles_;
  std::vector<std::pair<size_t, GenerationEvent>> early_;  // came before started()
  size_t open_ = 0;                                        // choices without an end
  bool started_ = false, begun_ = false, over_ = false;
  std::string chunk_;
};

// A refused submit() as an HTTP error.
ApiError refusal_error(Refusal refusal, const Error& error);

}  // namespace brisk
