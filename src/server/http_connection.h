// A client's connection and the exchanges on it. With http.cpp the only places that see Boost.
#pragma once
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "server/http.h"

namespace brisk::http_server {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = net::ip::tcp;
using boost::system::error_code;
constexpr auto kAwait = net::as_tuple(net::use_awaitable);
using Parser = http::request_parser<http::string_body>;

inline std::chrono::nanoseconds nanoseconds(double s) {
  return std::chrono::nanoseconds(static_cast<int64_t>(s * 1e9));
}

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

class ExchangeImpl final : public Exchange {
 public:
  ExchangeImpl(net::io_context& io, std::weak_ptr<Connection> connection) : io_(io), connection_(std::move(connection)) {}
  void post(std::function<void()> work) override;
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

// One client. Lives as long as its coroutine, serve().
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Shared& shared, tcp::socket socket);
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

  Shared& shared_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;  // of what is not parsed yet; bounded
  bool idle_ = true;
  bool unread_ = false;  // the client may still be sending
};

}  // namespace brisk::http_server
