// brisk eval F.engine --text FILE
#include <cstdio>
#include <nlohmann/json.hpp>

#include "api/generator.h"
#include "base/checked.h"
#include "base/file.h"
#include "command.h"
#include "op/step_io.h"
#include "quantize/perplexity.h"

namespace brisk::cli {
namespace {

struct Options {
  std::string engine, text, against;
  int threads = 0;
  int64_t max_windows = 0;
  bool json = false;
};

// Logits of one sequence by the engine's own step, in chunks as a server would run it.
LogitsOf logits_by(Generator& g) {
  return [&g](std::span<const int32_t> ids, int64_t from) -> Result<std::vector<float>> {
    StepRunner& runner = *g.runner;
    int64_t rows = runner.limits().max_sequences, length = static_cast<int64_t>(ids.size());
    std::vector<float> all;
    for (int64_t at = 0; at < length;) {
      // Positions whose logits are wanted go in steps of as many as a step may have; the others in large ones.
      int64_t end = at < from ? std::min(from, at + runner.limits().max_tokens) : std::min(length, at + rows);
      StepInput in;
      in.table_columns = static_cast<int32_t>(ceil_div(length, kBlockTokens));
      for (int32_t b = 0; b < in.table_columns; ++b) in.block_tables.push_back(b);
      for (int64_t i = at; i < end; ++i) {
        in.ids.push_back(ids[static_cast<size_t>(i)]);
        in.positions.push_back(static_cast<int32_t>(i));
        if (i < from) continue;
        in.logit_rows.push_back(static_cast<int32_t>(i - at));
        in.slots.push_back(0);
      }
      in.seq_starts = {0, static_cast<int32_t>(end - at)};
      in.context_lens = {static_cast<int32_t>(end)};
      in.params.resize(in.logit_rows.size());
      in.want_logits = true;
      BRISK_ASSIGN(Ticket t, runner.submit(in));
      BRISK_ASSIGN(auto out, runner.wait(t));
      all.insert(all.end(), out.logits.begin(), out.logits.end());
      at = end;
    }
    return all;
  };
}

Result<std::unique_ptr<Generator>> open(const std::string& path, int threads) {
  LLMOptions o;
  o.threads = threads;
  o.max_num_seqs = 256;  // logit rows of a step
  o.max_model_len = 0;
  return open_generator(path, o, /*with_loop=*/false);
}

Status eval(const Options& o) {
  BRISK_ASSIGN(auto g, open(o.engine, o.threads));
  std::unique_ptr<Generator> other;
  if (!o.against.empty()) {
    BRISK_ASSIGN(other, open(o.against, o.threads));
    if (other->runner->vocab_size() != g->runner->vocab_size()) return invalid("the engines have different vocabularies");
  }
  if (!g->tokenizer) return invalid("the engine has no tokenizer");
  BRISK_ASSIGN(auto text, read_file(o.text));
  BRISK_ASSIGN(auto ids, g->tokenizer->encode(text, {false, false}));
  int32_t bos = g->tokenizer->adds_bos() ? g->tokenizer->bos() : -1;
  size_t cap = static_cast<size_t>(o.max_windows * (kEvalWindow - (bos >= 0)));
  if (cap && ids.size() > cap) ids.resize(cap);
  EvalResult r;
  {
    Progress progress;
    BRISK_ASSIGN(r, evaluate_text(ids, bos, g->runner->vocab_size(), logits_by(*g), other ? logits_by(*other) : LogitsOf(),
                                  [&](int64_t done, int64_t all) { progress.update("eval", static_cast<double>(done) / static_cast<double>(all)); }));
  }
  nlohmann::json j = {{"perplexity", r.perplexity}, {"windows", r.windows}, {"scored_tokens", r.scored}};
  if (other) {
    j["against_perplexity"] = r.other_perplexity;
    j["mean_kl"] = r.mean_kl;
    j["top_agreement"] = r.top_agreement;
  }
  if (o.json) {
    std::printf("%s\n", j.dump().c_str());
    return {};
  }
  std::printf("perplexity %.4f over %lld tokens in %lld windows of %lld\n", r.perplexity, static_cast<long long>(r.scored),
              static_cast<long long>(r.windows), static_cast<long long>(kEvalWindow));
  if (other)
    std::printf("against %s: perplexity %.4f (%+.3f %%), KL divergence %.5f nats, same top token in %.2f %%\n", o.against.c_str(),
                r.other_perplexity, 100 * (r.perplexity / r.other_perplexity - 1), r.mean_kl, 100 * r.top_agreement);
  return {};
}

}  // namespace

Run eval_command(CLI::App& app) {
  auto o = std::make_shared<Options>();
  app.add_option("ENGINE", o->engine, "an engine file")->required();
  app.add_option("--text", o->text, "UTF-8 text: windows of 512 tokens, the second half of each scored")->required()->type_name("FILE");
  app.add_option("--against", o->against, "another engine: divergence of logits, agreement of the top token")->type_name("ENGINE");
  app.add_option("--max-windows", o->max_windows, "stop after so many windows; 0: all")->check(CLI::Range(0, INT32_MAX));
  app.add_flag("--json", o->json, "one JSON object");
  add_threads(app, o->threads);
  add_log_level(app);
  return [o] { return eval(*o); };
}

}  // namespace brisk::cli
