#include "server/http.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

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
#include <array>
#include <chrono>
#include <csignal>
#include <exception>
#include <set>

#include "base/log.h"

namespace brisk {
namespace {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = net::ip::tcp;
using boost::system::error_code;
constexpr auto kAwait = net::as_tuple(net::use_awaitable);
using Parser = http::request_parser<http::string_body>;

std::chrono::nanoseconds nanoseconds(double s) {
  return std::chrono::nanoseconds(static_cast<int64_t>(s * 1e9));
}

// A request id goes back into a header: nothing that could end a line, and not long.
std::string harmless_id(std::string_view id) {
  std::string out;
  for (char c : id.substr(0, 128))
    if (c > 0x20 && c < 0x7f) out += c;
  return out;
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

class ExchangeImpl final : public Exchange {
 public:
  ExchangeImpl(net::io_context& io, std::weak_ptr<Connection> connection) : io_(io), connection_(std::move(connection)) {}
  void post(std::function<void()> work) override {
    net::post(io_, [work = std::move(work)] {
      try {
        work();
      } catch (const std::exception& e) {
        log(LogLevel::kError, std::string("server: ") + e.what());
      }
    });
  }
  void respond(int status, std::string_view type, std::string_view body, const HttpHeaders& more) override;
  void begin(int status, std::string_view type) override;
  void write(std::string_view piece) override;
  void end() override;
  void keep_until_sent(std::shared_ptr<void> something) override;
  void on_gone(std::function<void()> call) override { on_gone_ = std::move(call); }
  bool gone() const override { return gone_; }

  void lose();  // the client is gone
  std::string head(int status, std::string_view type, const HttpHeaders& more) const;
  void wake();

  net::io_context& io_;
  std::weak_ptr<Connection> connection_;
  std::function<void()> on_gone_;
  std::string out;       // not yet handed to the socket
  std::vector<std::shared_ptr<void>> kept;  // until it is
  bool started = false;  // a status has been chosen
  bool ended = false, gone_ = false;
  bool keep_alive = true, chunked = true, head_only = false;
};

class Server;

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Server& server, tcp::socket socket);
  ~Connection();
  net::awaitable<void> serve();
  void close_if_idle();
  void watch(std::shared_ptr<ExchangeImpl> exchange);
  void poll_gone(std::shared_ptr<ExchangeImpl> exchange);
  uint64_t max_pending() const;

  net::steady_timer wake_timer;

 private:
  net::awaitable<bool> one_request();
  net::awaitable<bool> read_body(Parser& parser, std::shared_ptr<ExchangeImpl> exchange);
  net::awaitable<bool> flush(std::shared_ptr<ExchangeImpl> exchange);
  net::awaitable<void> hang_up();
  void refuse(ExchangeImpl& exchange, int status, std::string_view message);

  Server& server_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  bool idle_ = true;
  bool unread_ = false;  // the client may still be sending
};

class Server final : public HttpServer {
 public:
  explicit Server(const HttpOptions& o) : options(o), acceptor_(io), signals_(io) {}
  uint16_t port() const override { return port_; }
  Status open();
  Status run(HttpHandler& h, const std::function<void()>& listening) override;
  void finish(double patience_s) override;
  void gone(Connection* c);

  ~Server() override { finishing = false; }  // connections that end with io must not stop it

  const HttpOptions options;
  HttpHandler* handler = nullptr;
  bool finishing = false;
  uint64_t body_bytes = 0;  // claimed by requests that are read or answered now

 private:
  friend class Connection;
  Error cannot_listen(error_code e) const;
  net::awaitable<void> accept();
  net::awaitable<void> turn_away(tcp::socket socket);
  net::awaitable<void> wait_signals();

  int turning_away_ = 0;
  std::set<Connection*> connections_;  // outlives io, whose end is theirs

 public:
  net::io_context io{1};

 private:

  tcp::acceptor acceptor_;
  net::signal_set signals_;
  uint16_t port_ = 0;
};

// ---- Exchange

std::string ExchangeImpl::head(int status, std::string_view type, const HttpHeaders& more) const {
  std::string h = "HTTP/1.1 " + std::to_string(status) + " ";
  h += http_reason(status);
  h += "\r\nServer: brisk\r\nContent-Type: ";
  h += type;
  h += "\r\nX-Content-Type-Options: nosniff\r\nX-Request-Id: " + request_id + "\r\n";
  for (auto& [name, value] : more) h += name + ": " + value + "\r\n";
  if (!keep_alive) h += "Connection: close\r\n";
  return h;
}

void ExchangeImpl::wake() {
  if (auto c = connection_.lock()) c->wake_timer.cancel();
}

void ExchangeImpl::respond(int status, std::string_view type, std::string_view body, const HttpHeaders& more) {
  if (gone_ || started) return;
  started = ended = true;
  on_gone_ = nullptr;
  out = head(status, type, more) + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n";
  if (!head_only) out += body;
  wake();
}

void ExchangeImpl::begin(int status, std::string_view type) {
  if (gone_ || started) return;
  started = true;
  if (!chunked) keep_alive = false;  // HTTP/1.0: the end of the connection is the end of the answer
  out = head(status, type, {{"Cache-Control", "no-cache"}}) + (chunked ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n");
  wake();
}

void ExchangeImpl::write(std::string_view piece) {
  auto c = connection_.lock();
  if (gone_ || ended || piece.empty() || !c) return;
  if (chunked) {
    char size[24];
    out.append(size, static_cast<size_t>(std::snprintf(size, sizeof size, "%zx\r\n", piece.size())));
  }
  out += piece;
  if (chunked) out += "\r\n";
  if (out.size() > c->max_pending()) return lose();
  wake();
}

void ExchangeImpl::end() {
  if (gone_ || ended) return;
  ended = true;
  on_gone_ = nullptr;
  if (chunked) out += "0\r\n\r\n";
  wake();
}

void ExchangeImpl::keep_until_sent(std::shared_ptr<void> something) {
  if (!out.empty()) kept.push_back(std::move(something));
}

void ExchangeImpl::lose() {
  if (gone_) return;
  gone_ = true;
  out.clear();
  kept.clear();
  if (auto call = std::exchange(on_gone_, nullptr)) call();
  wake();
}

// ---- Connection

Connection::Connection(Server& server, tcp::socket socket)
    : wake_timer(server.io, net::steady_timer::time_point::max()), server_(server), stream_(std::move(socket)) {
  error_code ignored;
  stream_.socket().set_option(tcp::no_delay(true), ignored);
  server_.connections_.insert(this);
}

Connection::~Connection() { server_.gone(this); }

uint64_t Connection::max_pending() const { return server_.options.max_pending_bytes; }

void Connection::close_if_idle() {
  if (idle_) stream_.cancel();
}

void Connection::refuse(ExchangeImpl& exchange, int status, std::string_view message) {
  exchange.keep_alive = false;
  unread_ = true;
  exchange.respond(status, "application/json", server_.handler->error_body(status, message), {});
}

// While an answer is made nothing is read; a socket that becomes readable with nothing to read tells that the client left.
void Connection::watch(std::shared_ptr<ExchangeImpl> exchange) {
  stream_.socket().async_wait(tcp::socket::wait_read, [self = shared_from_this(), exchange](error_code e) {
    if (e || exchange->ended) return;
    char byte;
    ssize_t n = ::recv(self->stream_.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) exchange->lose();
    else self->poll_gone(exchange);
  });
}

// The next request is there already: what hides behind it is asked for now and then.
void Connection::poll_gone(std::shared_ptr<ExchangeImpl> exchange) {
  auto pause = std::make_shared<net::steady_timer>(server_.io, std::chrono::milliseconds(100));
  pause->async_wait([self = shared_from_this(), exchange, pause](error_code e) {
    if (e || exchange->ended || exchange->gone_) return;
    pollfd p{self->stream_.socket().native_handle(), POLLRDHUP, 0};
    if (::poll(&p, 1, 0) > 0) exchange->lose();
    else self->poll_gone(exchange);
  });
}

// Writes the answer as it comes. False: the connection is of no further use.
net::awaitable<bool> Connection::flush(std::shared_ptr<ExchangeImpl> exchange) {
  std::string writing;
  std::vector<std::shared_ptr<void>> kept;
  while (!exchange->gone_) {
    if (exchange->out.empty()) {
      if (exchange->ended) co_return exchange->keep_alive;
      wake_timer.expires_at(net::steady_timer::time_point::max());
      co_await wake_timer.async_wait(kAwait);
      continue;
    }
    writing.clear();
    writing.swap(exchange->out);
    kept.swap(exchange->kept);
    stream_.expires_after(nanoseconds(server_.options.client_timeout_s));
    auto [e, n] = co_await net::async_write(stream_, net::buffer(writing), kAwait);
    stream_.expires_never();
    kept.clear();
    if (e) exchange->lose();
  }
  co_return false;
}

// False: there is no body, and an answer that says why (or the client is gone).
net::awaitable<bool> Connection::read_body(Parser& parser, std::shared_ptr<ExchangeImpl> exchange) {
  auto expect = parser.get()[http::field::expect];
  if (beast::iequals(expect, "100-continue")) {
    static const std::string go_on = "HTTP/1.1 100 Continue\r\n\r\n";
    auto [e, n] = co_await net::async_write(stream_, net::buffer(go_on), kAwait);
    if (e) co_return false;
  }
  auto [e, n] = co_await http::async_read(stream_, buffer_, parser, kAwait);
  if (!e) co_return true;
  if (e == http::error::body_limit)
    refuse(*exchange, 413, "the body is over " + std::to_string(server_.options.max_body_bytes) + " bytes");
  else if (e == beast::error::timeout)
    exchange->lose();  // Beast has closed the socket
  else
    refuse(*exchange, 400, "the body is malformed: " + e.message());
  co_return false;
}

// True: the connection is good for another one.
net::awaitable<bool> Connection::one_request() {
  Parser parser;
  parser.header_limit(server_.options.max_header_bytes);
  parser.body_limit(server_.options.max_body_bytes);
  stream_.expires_after(nanoseconds(server_.options.client_timeout_s));
  idle_ = true;
  auto [e, n] = co_await http::async_read_header(stream_, buffer_, parser, kAwait);
  idle_ = false;
  auto exchange = std::make_shared<ExchangeImpl>(server_.io, weak_from_this());
  if (e) {
    if (e == http::error::header_limit)
      refuse(*exchange, 431, "the head of the request is over " + std::to_string(server_.options.max_header_bytes) + " bytes");
    else if (e == http::error::body_limit)
      refuse(*exchange, 413, "the body is over " + std::to_string(server_.options.max_body_bytes) + " bytes");
    else if (e.category() == make_error_code(http::error::bad_method).category() && e != http::error::end_of_stream &&
             e != http::error::partial_message)
      refuse(*exchange, 400, "not an HTTP request: " + e.message());
    else
      co_return false;  // gone, silent for too long, or asked to go
    co_await flush(exchange);
    co_return false;
  }
  const auto& head = parser.get();
  HttpRequest request;
  request.method = std::string(head.method_string());
  std::string target(head.target());
  request.path = target.substr(0, target.find_first_of("?#"));
  request.authorization = std::string(head[http::field::authorization]);
  request.content_type = std::string(head[http::field::content_type]);
  request.request_id = harmless_id({head["X-Request-Id"].data(), head["X-Request-Id"].size()});
  request.has_body = parser.chunked() || parser.content_length().value_or(0) > 0;
  exchange->request_id = request.request_id;
  exchange->chunked = head.version() >= 11;
  exchange->keep_alive = exchange->chunked && parser.keep_alive() && !server_.finishing;
  exchange->head_only = head.method() == http::verb::head;

  if (!server_.handler->admit(request, *exchange)) {
    if (request.has_body) exchange->keep_alive = false, unread_ = true;
    co_return co_await flush(exchange);
  }
  const uint64_t claim = parser.content_length().value_or(request.has_body ? server_.options.max_body_bytes : 0);
  if (claim > server_.options.max_all_bodies_bytes - std::min(server_.body_bytes, server_.options.max_all_bodies_bytes)) {
    refuse(*exchange, 503, "the bodies of all requests together are over " + std::to_string(server_.options.max_all_bodies_bytes) + " bytes");
    co_return co_await flush(exchange);
  }
  Share share(server_.body_bytes, claim);
  bool whole = co_await read_body(parser, exchange);
  stream_.expires_never();
  if (whole) {
    request.body = std::move(parser.get().body());
    watch(exchange);
    server_.handler->handle(std::move(request), exchange);
  } else if (!exchange->started) {
    co_return false;
  }
  bool again = co_await flush(exchange);
  error_code ignored;
  stream_.socket().cancel(ignored);  // the watch
  co_return again && !server_.finishing;
}

// Closing with unread bytes would reset the connection, and the client might never see the answer.
net::awaitable<void> Connection::hang_up() {
  error_code ignored;
  stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
  if (!unread_) co_return;
  stream_.expires_after(std::chrono::seconds(2));
  std::vector<char> rest(16384);
  for (uint64_t read = 0; read < server_.options.max_body_bytes;) {
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

Error Server::cannot_listen(error_code e) const {
  return environment("cannot listen on " + options.host + " port " + std::to_string(options.port) + ": " + e.message());
}

Status Server::open() {
  error_code e;
  auto address = net::ip::make_address(options.host == "localhost" ? "127.0.0.1" : options.host, e);
  if (e) return invalid("host '" + options.host + "' is not an IP address");
  tcp::endpoint endpoint(address, options.port);
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
  net::steady_timer limit(io, std::chrono::seconds(1));
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
      net::steady_timer pause(io, std::chrono::milliseconds(50));
      co_await pause.async_wait(kAwait);
    } else if (static_cast<int64_t>(connections_.size()) >= options.max_connections) {
      net::co_spawn(io, turn_away(std::move(socket)), net::detached);
    } else {
      auto c = std::make_shared<Connection>(*this, std::move(socket));
      net::co_spawn(io, [c] { return c->serve(); }, net::detached);
    }
  }
}

net::awaitable<void> Server::wait_signals() {
  for (int count = 1;; ++count) {
    auto [e, number] = co_await signals_.async_wait(kAwait);
    if (e) co_return;
    handler->signalled(count);
  }
}

Status Server::run(HttpHandler& h, const std::function<void()>& listening) {
  handler = &h;
  try {
    error_code e;
    acceptor_.listen(1024, e);
    if (e) return cannot_listen(e);
    signals_.add(SIGINT);
    signals_.add(SIGTERM);
    net::co_spawn(io, wait_signals(), net::detached);
    net::co_spawn(io, accept(), net::detached);
    net::post(io, listening);
    io.run();
  } catch (const std::exception& e) {
    return internal(std::string("server: ") + e.what());
  }
  return {};
}

void Server::gone(Connection* c) {
  connections_.erase(c);
  if (finishing && connections_.empty()) io.stop();
}

void Server::finish(double patience_s) {
  net::post(io, [this, patience_s] {
    if (finishing) return;
    finishing = true;
    error_code ignored;
    acceptor_.close(ignored);
    if (connections_.empty()) return io.stop();
    for (Connection* c : connections_) c->close_if_idle();
    auto timer = std::make_shared<net::steady_timer>(io, nanoseconds(patience_s));
    timer->async_wait([this, timer](error_code) { io.stop(); });
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
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    default: return "Unknown";
  }
}

}  // namespace brisk
