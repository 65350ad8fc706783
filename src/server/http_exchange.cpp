#include "server/http_exchange.h"

#include <cstdio>
#include <exception>
#include <utility>

#include "base/log.h"

namespace brisk {

std::string harmless_id(std::string_view id) {
  std::string out;
  for (char c : id.substr(0, 128))
    if (c > 0x20 && c < 0x7f) out += c;
  return out;
}

std::string path_of(std::string_view target) {
  target = target.substr(0, target.find_first_of("?#"));
  if (const size_t scheme = target.find("://"); !target.starts_with('/') && scheme != target.npos) {
    const size_t path = target.find('/', scheme + 3);
    target = path == target.npos ? "/" : target.substr(path);
  }
  return std::string(target);
}

void HttpExchange::post(std::function<void()> work) {
  line_.post([work = std::move(work)] {
    try {
      work();
    } catch (const std::exception& e) {
      log(LogLevel::kError, std::string("server: ") + e.what());
    }
  });
}

std::string HttpExchange::head(int status, std::string_view type, const HttpHeaders& more) const {
  std::string h = "HTTP/1.1 " + std::to_string(status) + " ";
  h += http_reason(status);
  h += "\r\nServer: brisk\r\nContent-Type: ";
  h += type;
  h += "\r\nX-Content-Type-Options: nosniff\r\nX-Request-Id: " + request_id + "\r\n";
  for (auto& [name, value] : more) h += name + ": " + value + "\r\n";
  if (!keep_alive) h += "Connection: close\r\n";
  return h;
}

void HttpExchange::respond(int status, std::string_view type, std::string_view body, const HttpHeaders& more) {
  if (gone_ || started) return;
  started = ended = true;
  on_gone_ = nullptr;
  out = head(status, type, more) + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n";
  if (!head_only) out += body;
  line_.wake();
}

void HttpExchange::begin(int status, std::string_view type) {
  if (gone_ || started) return;
  started = true;
  if (!chunked) keep_alive = false;  // HTTP/1.0: the end of the connection is the end of the answer
  out = head(status, type, {{"Cache-Control", "no-cache"}}) + (chunked ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n");
  line_.wake();
}

void HttpExchange::write(std::string_view piece) {
  if (gone_ || ended || piece.empty()) return;
  if (chunked) {
    char size[24];
    out.append(size, static_cast<size_t>(std::snprintf(size, sizeof size, "%zx\r\n", piece.size())));
  }
  out += piece;
  if (chunked) out += "\r\n";
  if (out.size() > line_.max_pending) return lose();
  line_.wake();
}

void HttpExchange::end() {
  if (gone_ || ended) return;
  ended = true;
  on_gone_ = nullptr;
  if (chunked) out += "0\r\n\r\n";
  line_.wake();
}

void HttpExchange::keep_until_sent(std::shared_ptr<void> something) {
  if (!out.empty()) kept.push_back(std::move(something));
}

void HttpExchange::lose() {
  if (gone_) return;
  gone_ = true;
  out.clear();
  kept.clear();
  if (auto call = std::exchange(on_gone_, nullptr)) call();
  line_.wake();
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
