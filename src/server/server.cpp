#include "server/server.h"

#include <arpa/inet.h>

#include <set>

#include "server/service.h"

namespace brisk {
namespace {

bool is_loopback(const std::string& host) {
  in_addr v4{};
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  return host == "localhost" || host == "::1";
}

bool good_name(const std::string& name) {
  if (name.empty() || name.size() > 128) return false;
  for (char c : name)
    if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') && c != '.' && c != '_' && c != '-') return false;
  return true;
}

}  // namespace

struct Server::State {
  ServerOptions options;
  std::unique_ptr<HttpServer> http;
};

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}
Server::~Server() = default;

Result<std::unique_ptr<Server>> Server::bind(ServerOptions options) {
  if (!is_loopback(options.http.host) && options.keys.empty() && !options.insecure)
    return invalid("host " + options.http.host + " can be reached by others: give --api-key-file (or BRISK_API_KEY), or --insecure to serve without a key");
  auto s = std::make_unique<State>();
  BRISK_ASSIGN(s->http, HttpServer::bind(options.http));
  s->options = std::move(options);
  return std::unique_ptr<Server>(new Server(std::move(s)));
}

uint16_t Server::port() const { return state_->http->port(); }

Status Server::run(std::vector<ServedModel> models, const std::function<void()>& listening) {
  std::set<std::string> names;
  for (const ServedModel& m : models) {
    if (!good_name(m.name)) return invalid("model name '" + m.name + "': 1 to 128 of A-Z a-z 0-9 . _ - are allowed");
    if (!names.insert(m.name).second) return invalid("two models are named '" + m.name + "'");
  }
  Service service(state_->options, *state_->http, std::move(models));
  return state_->http->run(service, listening);
}

}  // namespace brisk
