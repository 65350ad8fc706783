#include "server/http_connection.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>
#include <exception>

#include "base/log.h"

namespace brisk::http_server {
namespace {

constexpr std::ptrdiff_t kMaxTrailers = 100;

// A request id goes back into a header: nothing that could end a line, and not long.
std::string harmless_id(std::string_view id) {
  std::string out;
  for (char c : id.substr(0, 128))
    if (c > 0x20 && c < 0x7f) out += c;
  return out;
}

// Without the query; "http://host/path" asks for /path (a request to a proxy looks so, and servers must take it).
std::string path_of(std::string_view target) {
  target = target.substr(0, target.find_first_of("?#"));
  if (const size_t scheme = target.find("://"); !target.starts_with('/') && scheme != target.npos) {
    const size_t path = target.find('/', scheme + 3);
    target = path == target.npos ? "/" : target.substr(path);
  }
  return std::string(target);
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

}  // namespace

// ---- Exchange

void ExchangeImpl::post(std::function<void()> work) {
  net::post(io_, [work = std::move(work)] {
    try {
      work();
    } catch (const std::exception& e) {
      log(LogLevel::kError, std::string("server: ") + e.what());
    }
  });
}

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

Connection::Connection(Shared& shared, tcp::socket socket)
    : wake_timer(shared.io, net::steady_timer::time_point::max()), shared_(shared), stream_(std::move(socket)), buffer_(2 * std::size_t{shared.options.max_header_bytes} + 65536) {
  error_code ignored;
  stream_.socket().set_option(tcp::no_delay(true), ignored);
  shared_.connections.insert(this);
}

Connection::~Connection() {
  shared_.connections.erase(this);
  if (shared_.finishing && shared_.connections.empty()) shared_.io.stop();
}

uint64_t Connection::max_pending() const { return shared_.options.max_pending_bytes; }

void Connection::close_if_idle() {
  if (idle_) stream_.cancel();
}

void Connection::refuse(ExchangeImpl& exchange, int status, std::string_view message) {
  exchange.keep_alive = false;
  unread_ = true;
  exchange.respond(status, "application/json", shared_.handler->error_body(status, message), {});
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
  auto pause = std::make_shared<net::steady_timer>(shared_.io, std::chrono::milliseconds(100));
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
    stream_.expires_after(nanoseconds(shared_.options.client_timeout_s));
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
  auto exchange = std::make_shared<ExchangeImpl>(shared_.io, weak_from_this());
  exchange->request_id = shared_.handler->new_request_id();
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

}  // namespace brisk::http_server
