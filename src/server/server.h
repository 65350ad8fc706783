// The server: OpenAI's API over HTTP, for engines that somebody else has opened. docs/server.md says what it speaks.
//
//   auto server = Server::bind(options);     // early: a port in use is known before weights are loaded
//   ... open the engines ...
//   (*server)->run(models, [&] { ... });     // until SIGINT or SIGTERM
//
// Errors: kEnvironment (the address), kInvalid (options). The first signal stops the taking of requests and lets those
// that run end, for drain_s at most; a second one ends the process at once.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "brisk/result.h"
#include "server/http.h"
#include "server/keys.h"
#include "server/model.h"

namespace brisk {

struct ServerOptions {
  HttpOptions http;
  ApiKeys keys;               // empty: nobody is asked for one
  bool insecure = false;      // other hosts than loopback are allowed without a key
  bool open_metrics = false;  // /metrics needs no key
  double drain_s = 30;
  std::string version;        // as /version shows it
};

class Server {
 public:
  static Result<std::unique_ptr<Server>> bind(ServerOptions options);
  ~Server();
  uint16_t port() const;
  // The models' loops outlive the call, and must be gone before this object is: they hold sinks that point into it.
  Status run(std::vector<ServedModel> models, const std::function<void()>& listening);

 private:
  struct State;
  explicit Server(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace brisk
