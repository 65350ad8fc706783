#include "server/http.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <csignal>
#include <exception>
#include <set>

#include "base/log.h"
#include "server/http_exchange.h"

namespace brisk {
namespace {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = net::ip::tcp;
using boost::system::error_code;
constexpr auto kAwait = net::as_tuple(net::use_awaitable);
using Parser = http::request_parser<http::string_body>;
constexpr std::ptrdiff_t kMaxTrailers = 100;

std::chrono::nanoseconds nanoseconds(double s) {
  return std::chrono::nanoseconds(static_cast<int64_t>(s * 1e9));
}

// A part of a budget, given back at the end of the scope.
struct Share {
  Share(uint64_t& all, uint64_t mine) : all_(all), mine_(mine) { all_ += mine_; }
  ~Share() { all_ -= mine_; }
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;

 private:
  uint64_t& all_;
  uint64_t mine_;
};

class Connection;

// What the connections of a server have in common; the I/O thread's.
struct Shared {
  explicit Shared(const HttpOptions& o) : options(o) {}
  ~Shared() { finishing = false; }  // connections that end with io must not stop it

  const HttpOptions options;
  HttpHandler* handler = nullptr;
  bool finishing = false;               // connections end with the answer they are at, the last one stops io
  uint64_t body_bytes = 0;              // claimed by requests that are read or answered now
  std::set<Connection*> connections;    // outlives io, whose end is theirs
  net::io_context io{1};
};

// One client. Lives as long as its coroutine, serve().
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Shared& shared, tcp::socket socket);
  ~Connection();
  net::awaitable<void> serve();
  void close_if_idle();
  void watch(std::shared_ptr<HttpExchange> exchange);
  void poll_gone(std::shared_ptr<HttpExchange> exchange);

 private:
  net::awaitable<bool> one_request();
  net::awaitable<bool> read_body(Parser& parser, std::shared_ptr<HttpExchange> exchange);
  net::awaitable<bool> flush(std::shared_ptr<HttpExchange> exchange);
  net::awaitable<void> hang_up();
  std::shared_ptr<HttpExchange> new_exchange();
  void refuse(HttpExchange& exchange, int status, std::string_view message);

  Shared& shared_;
  net::steady_timer wake_timer_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;  // of what is not parsed yet; bounded
  bool idle_ = true;
  bool unread_ = false;  // the client may still be sending
};

// ---- Connection

Connection::Connection(Shared& shared, tcp::socket socket)
    : shared_(shared), wake_timer_(shared.io, net::steady_timer::time_point::max()), stream_(std::move(socket)), buffer_(2 * std::size_t{shared.options.max_header_bytes} + 65536) {
  error_code ignored;
  stream_.socket().set_option(tcp::no_delay(true), ignored);
  shared_.connections.insert(this);
}

Connection::~Connection() {
  shared_.connections.erase(this);
  if (shared_.finishing && shared_.connections.empty()) shared_.io.stop();
}

std::shared_ptr<HttpExchange> Connection::new_exchange() {
  auto wake = [connection = weak_from_this()] {
    if (auto c = connection.lock()) c->wake_timer_.cancel();
  };
  auto post = [&io = shared_.io](std::function<void()> work) { net::post(io, std::move(work)); };
  auto e = std::make_shared<HttpExchange>(HttpExchange::Line{std::move(post), std::move(wake), shared_.options.max_pending_bytes});
  e->request_id = shared_.handler->new_request_id();
  return e;
}

void Connection::close_if_idle() {
  if (idle_) stream_.cancel();
}

void Connection::refuse(HttpExchange& exchange, int status, std::string_view message) {
  exchange.keep_alive = false;
  unread_ = true;
  exchange.respond(status, "application/json", shared_.handler->error_body(status, message), {});
}

// While an answer is made nothing is read; a socket that becomes readable with nothing to read tells that the client left.
void Connection::watch(std::shared_ptr<HttpExchange> exchange) {
  stream_.socket().async_wait(tcp::socket::wait_read, [self = shared_from_this(), exchange](error_code e) {
    if (e || exchange->ended) return;
    char byte;
    ssize_t n = ::recv(self->stream_.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) exchange->lose();
    else self->poll_gone(exchange);
  });
}

// The next request is there already: what hides behind it is asked for now and then.
void Connection::poll_gone(std::shared_ptr<HttpExchange> exchange) {
  auto pause = std::make_shared<net::steady_timer>(shared_.io, std::chrono::milliseconds(100));
  pause->async_wait([self = shared_from_this(), exchange, pause](error_code e) {
    if (e || exchange->ended || exchange->gone()) return;
    pollfd p{self->stream_.socket().native_handle(), POLLRDHUP, 0};
    if (::poll(&p, 1, 0) > 0) exchange->lose();
    else self->poll_gone(exchange);
  });
}

// Writes the answer as it comes. False: the connection is of no further use.
net::awaitable<bool> Connection::flush(std::shared_ptr<HttpExchange> exchange) {
  std::string writing;
  std::vector<std::shared_ptr<void>> kept;
  while (!exchange->gone()) {
    if (exchange->out.empty()) {
      if (exchange->ended) co_return exchange->keep_alive;
      wake_timer_.expires_at(net::steady_timer::time_point::max());
      co_await wake_timer_.async_wait(kAwait);
      continue;
    }
    writing.clear();
    writing.swap(exchange->out);
    kept.swap(exchange->kept);
    stream_.expires_after(nanoseconds(shared_.options.client_timeout_s));
    auto [e, n] = co_await net::async_write(stream_, net::buffer(writing), kAwait);
    stream_.expires_never();
    kept.clear();
    if (e) exchange->lose();
  }
  co_return false;
}

// False: there is no body, and an answer that says why (or the client is gone).
net::awaitable<bool> Connection::read_body(Parser& parser, std::shared_ptr<HttpExchange> exchange) {
  auto expect = parser.get()[http::field::expect];
  if (beast::iequals(expect, "100-continue")) {
    static const std::string go_on = "HTTP/1.1 100 Continue\r\n\r\n";
    auto [e, n] = co_await net::async_write(stream_, net::buffer(go_on), kAwait);
    if (e) co_return false;
  }
  // Behind the last chunk more fields may come. Nobody reads them, and the parser does not count them.
  const auto fields = std::distance(parser.get().begin(), parser.get().end());
  parser.eager(true);
  error_code e;
  while (!e && !parser.is_done()) {
    auto [failed, n] = co_await http::async_read_some(stream_, buffer_, parser, kAwait);
    e = failed;
    if (std::distance(parser.get().begin(), parser.get().end()) > fields + kMaxTrailers) e = http::error::header_limit;
  }
  if (!e) co_return true;
  if (e == http::error::body_limit)
    refuse(*exchange, 413, "the body is over " + std::to_string(shared_.options.max_body_bytes) + " bytes");
  else if (e == http::error::header_limit || e == http::error::buffer_overflow)
    refuse(*exchange, 431, "the lines around the body's chunks are too long or too many");
  else if (e == beast::error::timeout)
    exchange->lose();  // Beast has closed the socket
  else
    refuse(*exchange, 400, "the body is malformed: " + e.message());
  co_return false;
}

// True: the connection is good for another one.
net::awaitable<bool> Connection::one_request() {
  Parser parser;
  parser.header_limit(shared_.options.max_header_bytes);
  parser.body_limit(shared_.options.max_body_bytes);
  stream_.expires_after(nanoseconds(shared_.options.client_timeout_s));
  idle_ = true;
  auto [e, n] = co_await http::async_read_header(stream_, buffer_, parser, kAwait);
  idle_ = false;
  auto exchange = new_exchange();
  if (e) {
    if (e == http::error::header_limit)
      refuse(*exchange, 431, "the head of the request is over " + std::to_string(shared_.options.max_header_bytes) + " bytes");
    else if (e == http::error::body_limit)
      refuse(*exchange, 413, "the body is over " + std::to_string(shared_.options.max_body_bytes) + " bytes");
    else if (e.category() == make_error_code(http::error::bad_method).category() && e != http::error::end_of_stream &&
             e != http::error::partial_message)
      refuse(*exchange, 400, "not an HTTP request: " + e.message());
    else
      co_return false;  // gone, silent for too long, or asked to go
    co_await flush(exchange);
    co_return false;
  }
  const auto& head = parser.get();
  // Two readings of where a body ends would let one request hide another.
  if (const auto coding = head[http::field::transfer_encoding]; !coding.empty() && !(head.version() >= 11 && beast::iequals(coding, "chunked"))) {
    refuse(*exchange, 501, "Transfer-Encoding: chunked, alone and of HTTP/1.1, is all that is taken");
    co_await flush(exchange);
    co_return false;
  }
  HttpRequest request;
  request.method = std::string(head.method_string());
  request.path = path_of(head.target());
  request.authorization = std::string(head[http::field::authorization]);
  request.content_type = std::string(head[http::field::content_type]);
  request.request_id = harmless_id({head["X-Request-Id"].data(), head["X-Request-Id"].size()});
  request.has_body = parser.chunked() || parser.content_length().value_or(0) > 0;
  if (request.request_id.empty()) request.request_id = exchange->request_id;
  exchange->request_id = request.request_id;
  exchange->chunked = head.version() >= 11;
  exchange->keep_alive = exchange->chunked && parser.keep_alive() && !shared_.finishing;
  exchange->head_only = head.method() == http::verb::head;

  if (!shared_.handler->admit(request, *exchange)) {
    if (request.has_body) exchange->keep_alive = false, unread_ = true;
    co_return co_await flush(exchange);
  }
  const uint64_t claim = parser.content_length().value_or(request.has_body ? shared_.options.max_body_bytes : 0);
  if (claim > shared_.options.max_all_bodies_bytes - std::min(shared_.body_bytes, shared_.options.max_all_bodies_bytes)) {
    refuse(*exchange, 503, "the bodies of all requests together are over " + std::to_string(shared_.options.max_all_bodies_bytes) + " bytes");
    co_return co_await flush(exchange);
  }
  Share share(shared_.body_bytes, claim);
  bool whole = co_await read_body(parser, exchange);
  stream_.expires_never();
  if (whole) {
    request.body = std::move(parser.get().body());
    watch(exchange);
    shared_.handler->handle(std::move(request), exchange);
  } else if (!exchange->started) {
    co_return false;
  }
  bool again = co_await flush(exchange);
  error_code ignored;
  stream_.socket().cancel(ignored);  // the watch
  co_return again && !shared_.finishing;
}

// Closing with unread bytes would reset the connection, and the client might never see the answer.
net::awaitable<void> Connection::hang_up() {
  error_code ignored;
  stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
  if (!unread_) co_return;
  stream_.expires_after(std::chrono::seconds(2));
  std::vector<char> rest(16384);
  for (uint64_t read = 0; read < shared_.options.max_body_bytes;) {
    auto [e, n] = co_await stream_.async_read_some(net::buffer(rest), kAwait);
    if (e) break;
    read += n;
  }
}

net::awaitable<void> Connection::serve() {
  auto self = shared_from_this();
  try {
    while (co_await one_request()) {
    }
    co_await hang_up();
  } catch (const std::exception& e) {
    log(LogLevel::kError, std::string("server: ") + e.what());
  }
}

// ---- Server

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

}  // namespace brisk
