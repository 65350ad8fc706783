// An answer on its way into a connection: status line, fields, chunks; and what of a request's head is read as text. No Boost.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/http.h"

namespace brisk {

// A request id goes back into a header: nothing that could end a line, and not long.
std::string harmless_id(std::string_view id);
// Without the query; "http://host/path" asks for /path (a request to a proxy looks so, and servers must take it).
std::string path_of(std::string_view target);

// The I/O thread's, but for post().
class HttpExchange final : public Exchange {
 public:
  // What it needs of the connection, which may end before it does.
  struct Line {
    std::function<void(std::function<void()>)> post;  // any thread: onto the I/O thread
    std::function<void()> wake;                       // there is something to write, or it has ended
    uint64_t max_pending = 0;                         // bytes in `out`; above, the client is cut
  };
  explicit HttpExchange(Line line) : line_(std::move(line)) {}
  void post(std::function<void()> work) override;
  void respond(int status, std::string_view type, std::string_view body, const HttpHeaders& more) override;
  void begin(int status, std::string_view type) override;
  void write(std::string_view piece) override;
  void end() override;
  void keep_until_sent(std::shared_ptr<void> something) override;
  void on_gone(std::function<void()> call) override { on_gone_ = std::move(call); }
  bool gone() const override { return gone_; }

  void lose();  // the client is gone

  std::string out;                          // not yet handed to the socket
  std::vector<std::shared_ptr<void>> kept;  // until it is
  bool started = false;  // a status has been chosen
  bool ended = false;
  bool keep_alive = true, chunked = true, head_only = false;

 private:
  std::string head(int status, std::string_view type, const HttpHeaders& more) const;

  Line line_;
  std::function<void()> on_gone_;
  bool gone_ = false;
};

}  // namespace brisk
