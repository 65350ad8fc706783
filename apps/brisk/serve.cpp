// brisk serve F.engine...
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "api/generator.h"
#include "base/file.h"
#include "base/log.h"
#include "brisk_version.h"
#include "command.h"
#include "server/server.h"

namespace brisk::cli {
namespace {

struct Options {
  std::vector<std::string> engines;
  std::string key_file, name;
  int port = 8000;
  ServerOptions server;
  LLMOptions llm;
};

Status read_keys(const Options& o, ApiKeys& keys) {
  if (!o.key_file.empty()) {
    BRISK_ASSIGN(auto text, read_file(o.key_file, 1 << 20));
    BRISK_TRY(keys.add_lines(text, o.key_file));
  }
  if (const char* key = std::getenv("BRISK_API_KEY"); key && *key) BRISK_TRY(keys.add_lines(key, "BRISK_API_KEY"));
  return {};
}

// Sampling defaults of the model's makers win over OpenAI's.
void apply_generation_config(const std::string& text, SampleParams& p) {
  auto json = parse_json(text);
  if (text.empty() || !json.ok()) return;
  auto read = [&](const char* name, auto& out, double low, double high) {
    const Json* v = json->find(name);
    const double d = !v ? -1 : v->as_double() ? *v->as_double() : v->as_int() ? static_cast<double>(*v->as_int()) : -1;
    if (d >= low && d <= high) out = static_cast<std::remove_reference_t<decltype(out)>>(d);
  };
  read("temperature", p.temperature, 0, request_limits::kMaxTemperature);
  read("top_p", p.top_p, 1e-6, 1);
  read("min_p", p.min_p, 0, 1);
  read("top_k", p.top_k, 0, 1 << 20);
  read("repetition_penalty", p.repetition_penalty, 1e-6, request_limits::kMaxRepetitionPenalty);
}

Status serve(Options& o) {
  if (!o.name.empty() && o.engines.size() > 1) return invalid("--served-model-name names one engine; there are " + std::to_string(o.engines.size()));
  BRISK_TRY(read_keys(o, o.server.keys));
  o.server.http.port = static_cast<uint16_t>(o.port);
  o.server.version = BRISK_VERSION;
  BRISK_ASSIGN(auto server, Server::bind(o.server));
  std::vector<std::unique_ptr<Generator>> generators;
  std::vector<ServedModel> models;
  for (const std::string& path : o.engines) {
    BRISK_ASSIGN(auto g, open_generator(path, o.llm));
    ServedModel m;
    m.name = o.name.empty() ? std::filesystem::path(path).stem().string() : o.name;
    m.loop = g->loop.get();
    m.encode_chat = [raw = g.get()](ChatInput input) { return raw->encode_chat(std::move(input)); };
    apply_generation_config(g->content().generation_config, m.defaults);
    m.defaults.top_k = std::min(m.defaults.top_k, static_cast<int32_t>(m.loop->vocab_size()));
    log(LogLevel::kInfo, m.name + " is ready after " + std::to_string(static_cast<int>(g->ready_ms)) + " ms");
    models.push_back(std::move(m));
    generators.push_back(std::move(g));
  }
  const std::string host = o.server.http.host.find(':') == std::string::npos ? o.server.http.host : "[" + o.server.http.host + "]";
  return server->run(models, [&] {
    std::printf("brisk: serving on http://%s:%d\n", host.c_str(), server->port());
    std::fflush(stdout);
  });
}

}  // namespace

Run serve_command(CLI::App& app) {
  auto o = std::make_shared<Options>();
  app.add_option("ENGINE", o->engines, "engine files; each is served under its file's name")->required();
  app.add_option("--host", o->server.http.host, "address to listen on; others than this machine's own need a key or --insecure");
  app.add_option("--http-port", o->port, "port; 0: any, printed on stdout")->check(CLI::Range(0, 65535));
  app.add_option("--api-key-file", o->key_file, "a key a line; BRISK_API_KEY in the environment adds one");
  app.add_flag("--insecure", o->server.insecure, "serve other machines without a key");
  app.add_flag("--open-metrics", o->server.open_metrics, "/metrics needs no key");
  app.add_option("--served-model-name", o->name, "name of the one engine instead of its file's");
  app.add_option_function<std::string>(
         "--max-body",
         [raw = o.get()](const std::string& text) {
           auto n = parse_size(text);
           if (!n.ok() || *n < 1024) throw CLI::ValidationError("--max-body", n.ok() ? "at least 1K" : n.error().message);
           raw->server.http.max_body_bytes = static_cast<uint64_t>(*n);
         },
         "limit of a request's body; 16M")
      ->type_name("SIZE");
  app.add_option("--max-connections", o->server.http.max_connections, "connections at a time")->check(CLI::Range(1, 65536));
  app.add_option("--client-timeout", o->server.http.client_timeout_s, "seconds for a request to come, or a part of an answer to be taken")->check(CLI::Range(0.1, 3600.0));
  app.add_option("--drain-timeout", o->server.drain_s, "seconds that requests have to end after SIGTERM")->check(CLI::Range(0.0, 3600.0));
  add_runtime_flags(app, o->llm);
  return [o] { return serve(*o); };
}

}  // namespace brisk::cli
