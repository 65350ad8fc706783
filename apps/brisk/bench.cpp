// brisk bench F.engine
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "api/convert.h"
#include "api/generator.h"
#include "base/file.h"
#include "brisk/execution_context.h"
#include "command.h"
#include "engine/engine_file.h"
#include "loop/bench.h"
#include "tensor/npy.h"

namespace brisk::cli {
namespace {

struct Options {
  std::string engine, inputs, profile;
  BenchOptions bench;
  LLMOptions llm;
  bool json = false;
};

nlohmann::json percentile_json(const Percentiles& p) { return {{"p50", p.p50}, {"p90", p.p90}, {"p99", p.p99}}; }

void print(const Options& o, const nlohmann::json& j) {
  if (o.json) {
    std::printf("%s\n", j.dump().c_str());
    return;
  }
  for (auto& [key, value] : j.items()) std::printf("%-22s %s\n", key.c_str(), value.dump().c_str());
}

Status bench_generator(Options& o) {
  o.llm.prefix_cache = false;
  o.llm.max_num_seqs = std::max(o.llm.max_num_seqs, o.bench.concurrency);
  BRISK_ASSIGN(auto g, open_generator(o.engine, o.llm));
  BenchResult r;
  {
    Progress progress;
    BRISK_ASSIGN(r, bench_generation(*g->loop, o.bench, [&](int64_t done, int64_t all) {
      progress.update("bench", static_cast<double>(done) / static_cast<double>(all));
      return true;
    }));
  }
  // What the peak is made of: the engine file as mapped, the state that held tokens, and all else (scratch, tokenizer,
  // sampling, program).
  int64_t peak = peak_rss_bytes(), weights = static_cast<int64_t>(std::filesystem::file_size(o.engine));
  int64_t state = g->loop->stats().blocks_touched * g->state_block_bytes;
  print(o, {{"prompt_len", o.bench.prompt_len}, {"gen_len", o.bench.gen_len}, {"concurrency", o.bench.concurrency},
            {"requests", r.requests}, {"threads", g->backend->threads()}, {"ttft_ms", percentile_json(r.ttft_ms)},
            {"tpot_ms", percentile_json(r.tpot_ms)}, {"tokens_per_s", r.tokens_per_s},
            {"prompt_tokens_per_s", r.prompt_tokens_per_s}, {"peak_rss_bytes", peak}, {"weights_bytes", weights},
            {"state_bytes", state}, {"other_bytes", peak - weights - state}, {"load_ms", g->load_ms}, {"ready_ms", g->ready_ms}});
  return {};
}

// Where the time of a call goes: each step, and all of one operator and kernel together.
Status write_profile(const Options& o, ExecutionContext& context, const std::map<std::string, Tensor>& inputs) {
  BRISK_ASSIGN(auto steps, context.profile(inputs, 11));
  nlohmann::ordered_json j = {{"total_ms", 0.0}, {"by_op", nlohmann::json::object()}, {"steps", nlohmann::json::array()}};
  double total = 0;
  std::map<std::string, double> by_op;
  for (auto& s : steps) {
    total += s.ms;
    by_op[s.op + " " + s.kernel] += s.ms;
    j["steps"].push_back({{"name", s.name}, {"op", s.op}, {"kernel", s.kernel}, {"ms", s.ms}});
  }
  j["total_ms"] = total;
  j["by_op"] = by_op;
  std::string text = j.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  BRISK_ASSIGN(auto file, AtomicFile::create(o.profile));
  BRISK_TRY(file->write({reinterpret_cast<const std::byte*>(text.data()), text.size()}));
  return file->commit();
}

Status bench_function(Options& o) {
  if (o.inputs.empty()) return invalid("a function engine: give its inputs with --inputs a.npz");
  auto clock = [] { return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count(); };
  double start = clock();
  BRISK_ASSIGN(auto context, ExecutionContext::open(o.engine, {"cpu", "", o.llm.threads}));
  double load = clock() - start;
  BRISK_ASSIGN(auto arrays, read_npz(o.inputs));
  std::map<std::string, Tensor> inputs;
  for (auto& [name, c] : arrays) inputs[name] = to_tensor(*c);
  BRISK_ASSIGN(auto warm, context->run(inputs));
  std::vector<double> times;
  auto repeats = o.bench.requests ? o.bench.requests : 20;
  double begin = clock();
  for (int64_t i = 0; i < repeats; ++i) {
    double t = clock();
    BRISK_ASSIGN(auto results, context->run(inputs));
    times.push_back(clock() - t);
  }
  double total = clock() - begin;
  if (!o.profile.empty()) BRISK_TRY(write_profile(o, *context, inputs));
  print(o, {{"calls", repeats}, {"latency_ms", percentile_json(percentiles(times))}, {"calls_per_s", 1000 * static_cast<double>(repeats) / total},
            {"peak_rss_bytes", peak_rss_bytes()}, {"load_ms", load}});
  return {};
}

Status bench(Options& o) {
  BRISK_ASSIGN(auto content, read_engine_metadata(o.engine));
  bool generative = content->functions.count("step") > 0;
  content.reset();
  return generative ? bench_generator(o) : bench_function(o);
}

}  // namespace

Run bench_command(CLI::App& app) {
  auto o = std::make_shared<Options>();
  app.add_option("ENGINE", o->engine, "an engine file")->required();
  app.add_option("--prompt-len", o->bench.prompt_len, "random prompt tokens of each request")->check(CLI::PositiveNumber);
  app.add_option("--gen-len", o->bench.gen_len, "new tokens of each request")->check(CLI::PositiveNumber);
  app.add_option("--concurrency", o->bench.concurrency, "requests in flight")->check(CLI::Range(1, 4096));
  app.add_option("--requests", o->bench.requests, "measured requests (function engines: calls); 0: enough for percentiles")->check(CLI::Range(0, 1000000));
  app.add_option("--inputs", o->inputs, "inputs of a function engine")->type_name("FILE.npz");
  app.add_option("--profile", o->profile, "function engines: write the time of each step")->type_name("OUT.json");
  app.add_flag("--json", o->json, "one JSON object");
  add_runtime_flags(app, o->llm);
  return [o] { return bench(*o); };
}

}  // namespace brisk::cli
