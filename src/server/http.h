// HTTP/1.1 over TCP: accepts, reads one bounded request after another, writes what the handler gives. No JSON, no models.
//
// Threads. run() serves everything on the thread that calls it ("the I/O thread"); the handler is called there, and all
// members of Exchange but post() belong to it. The handler must not block: long work goes to another thread, which comes
// back through post().
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "brisk/result.h"

namespace brisk {

struct HttpOptions {
  std::string host = "127.0.0.1";           // an address of this machine
  uint16_t port = 8000;                     // 0: any
  uint64_t max_body_bytes = 16u << 20;      // above: 413
  uint64_t max_all_bodies_bytes = 256u << 20;  // of all requests that are read or answered; above: 503
  uint32_t max_header_bytes = 32u << 10;    // above: 431
  int64_t max_connections = 1024;           // above: 503 and closed
  uint64_t max_pending_bytes = 1u << 20;    // of a stream that its client does not read; above: the client is cut
  double client_timeout_s = 60;             // for a whole request to come, or a part of an answer to be taken
};

struct HttpRequest {
  std::string method, path;     // path without the query
  std::string authorization, content_type, request_id, body;
  bool has_body = false;
};

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

// One request and its answer.
class Exchange {
 public:
  virtual ~Exchange() = default;

  // Any thread: runs `work` on the I/O thread, in order. What is posted after run() has returned is never run.
  virtual void post(std::function<void()> work) = 0;

  // The whole answer at once...
  virtual void respond(int status, std::string_view content_type, std::string_view body, const HttpHeaders& more = {}) = 0;
  // ...or piece by piece: begin, any number of write, end.
  virtual void begin(int status, std::string_view content_type) = 0;
  virtual void write(std::string_view piece) = 0;
  virtual void end() = 0;
  // Kept until all that was written up to now is in the socket's buffer, or is not going to be; then dropped.
  virtual void keep_until_sent(std::shared_ptr<void> something) = 0;

  // Called once if the client goes, or is cut, before the answer is complete. What is written after that goes nowhere.
  virtual void on_gone(std::function<void()> call) = 0;
  virtual bool gone() const = 0;

  std::string request_id;  // sent back as X-Request-Id
};

class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // The head is there, the body is not. False: it has responded, the body is not wanted and the connection ends.
  virtual bool admit(const HttpRequest& head, Exchange& exchange) = 0;
  virtual void handle(HttpRequest request, std::shared_ptr<Exchange> exchange) = 0;
  // For a request whose client has sent none.
  virtual std::string new_request_id() = 0;
  // What the HTTP layer itself answers with, as the API spells errors.
  virtual std::string error_body(int status, std::string_view message) = 0;
  // SIGINT or SIGTERM came for the first, second... time.
  virtual void signalled(int count) = 0;
};

class HttpServer {
 public:
  // Takes the address; nobody can connect before run(). kEnvironment: it is in use, or not this machine's.
  static Result<std::unique_ptr<HttpServer>> bind(const HttpOptions& options);
  virtual ~HttpServer() = default;
  virtual uint16_t port() const = 0;
  // Serves until finish(). `listening` is called once clients can connect.
  virtual Status run(HttpHandler& handler, const std::function<void()>& listening) = 0;
  // Any thread: connections end with the answer they are at; run() returns when all have, or after patience_s.
  virtual void finish(double patience_s) = 0;
};

std::string_view http_reason(int status);

}  // namespace brisk
