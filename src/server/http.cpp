#include "server/http.h"

#include <sys/socket.h>

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <exception>

#include "server/http_connection.h"

namespace brisk {
namespace {

using namespace http_server;

class Server final : public HttpServer {
 public:
  explicit Server(const HttpOptions& o) : shared_(o), acceptor_(shared_.io), signals_(shared_.io) {}
  uint16_t port() const override { return port_; }
  Status open();
  Status run(HttpHandler& h, const std::function<void()>& listening) override;
  void finish(double patience_s) override;

 private:
  Error cannot_listen(error_code e) const;
  net::awaitable<void> accept();
  net::awaitable<void> turn_away(tcp::socket socket);
  net::awaitable<void> wait_signals();

  Shared shared_;
  tcp::acceptor acceptor_;
  net::signal_set signals_;
  uint16_t port_ = 0;
  int turning_away_ = 0;
};

Error Server::cannot_listen(error_code e) const {
  return environment("cannot listen on " + shared_.options.host + " port " + std::to_string(shared_.options.port) + ": " + e.message());
}

Status Server::open() {
  error_code e;
  auto address = net::ip::make_address(shared_.options.host == "localhost" ? "127.0.0.1" : shared_.options.host, e);
  if (e) return invalid("host '" + shared_.options.host + "' is not an IP address");
  tcp::endpoint endpoint(address, shared_.options.port);
  acceptor_.open(endpoint.protocol(), e);
  if (!e) acceptor_.set_option(tcp::acceptor::reuse_address(true), e);
  if (!e) acceptor_.bind(endpoint, e);
  if (e) return cannot_listen(e);
  port_ = acceptor_.local_endpoint(e).port();
  return {};
}

// Says that there is no room. To close while something the client sent is unread would reset the connection, and the
// client might never see the answer: so that is read first, for a second and 64 KiB at most, and for few at a time.
net::awaitable<void> Server::turn_away(tcp::socket socket) {
  static constexpr char kFull[] = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
  (void)::send(socket.native_handle(), kFull, sizeof kFull - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (turning_away_ >= 64) co_return;
  ++turning_away_;
  error_code e;
  socket.shutdown(tcp::socket::shutdown_send, e);
  auto shared = std::make_shared<tcp::socket>(std::move(socket));
  net::steady_timer limit(shared_.io, std::chrono::seconds(1));
  limit.async_wait([shared](error_code expired) {
    error_code ignored;
    if (!expired) shared->cancel(ignored);
  });
  std::array<char, 4096> unread;
  for (size_t total = 0; total < (64 << 10) && !e;) {
    auto [failed, n] = co_await shared->async_read_some(net::buffer(unread), kAwait);
    e = failed;
    total += n;
  }
  --turning_away_;
}

net::awaitable<void> Server::accept() {
  for (;;) {
    auto [e, socket] = co_await acceptor_.async_accept(kAwait);
    if (!acceptor_.is_open()) co_return;
    if (e) {  // out of descriptors, perhaps
      net::steady_timer pause(shared_.io, std::chrono::milliseconds(50));
      co_await pause.async_wait(kAwait);
    } else if (static_cast<int64_t>(shared_.connections.size()) >= shared_.options.max_connections) {
      net::co_spawn(shared_.io, turn_away(std::move(socket)), net::detached);
    } else {
      auto c = std::make_shared<Connection>(shared_, std::move(socket));
      net::co_spawn(shared_.io, [c] { return c->serve(); }, net::detached);
    }
  }
}

net::awaitable<void> Server::wait_signals() {
  for (int count = 1;; ++count) {
    auto [e, number] = co_await signals_.async_wait(kAwait);
    if (e) co_return;
    shared_.handler->signalled(count);
  }
}

Status Server::run(HttpHandler& h, const std::function<void()>& listening) {
  shared_.handler = &h;
  try {
    error_code e;
    acceptor_.listen(1024, e);
    if (e) return cannot_listen(e);
    signals_.add(SIGINT);
    signals_.add(SIGTERM);
    net::co_spawn(shared_.io, wait_signals(), net::detached);
    net::co_spawn(shared_.io, accept(), net::detached);
    net::post(shared_.io, listening);
    shared_.io.run();
  } catch (const std::exception& e) {
    return internal(std::string("server: ") + e.what());
  }
  return {};
}

void Server::finish(double patience_s) {
  net::post(shared_.io, [this, patience_s] {
    if (shared_.finishing) return;
    shared_.finishing = true;
    error_code ignored;
    acceptor_.close(ignored);
    if (shared_.connections.empty()) return shared_.io.stop();
    for (Connection* c : shared_.connections) c->close_if_idle();
    auto timer = std::make_shared<net::steady_timer>(shared_.io, nanoseconds(patience_s));
    timer->async_wait([this, timer](error_code) { shared_.io.stop(); });
  });
}

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::bind(const HttpOptions& options) {
  try {
    auto s = std::make_unique<Server>(options);
    BRISK_TRY(s->open());
    return std::unique_ptr<HttpServer>(std::move(s));
  } catch (const std::exception& e) {
    return environment(std::string("server: ") + e.what());
  }
}

std::string_view http_reason(int status) {
  switch (status) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 413: return "Content Too Large";
    case 415: return "Unsupported Media Type";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    default: return "Unknown";
  }
}

}  // namespace brisk
