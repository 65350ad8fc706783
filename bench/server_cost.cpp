// The server's own cost, seen by a small client: time of receipt of the first content byte minus the time at which the
// engine had sampled its token (CLOCK_MONOTONIC of the same machine, debug_timing). Each request has a new random prompt.
//
//   brisk serve F.engine --http-port 8000 &
//   server_cost 8000 [requests 500] [prompt tokens 16] [new tokens 8] [streams at a time 1]
//
// Prints percentiles, time to first token as the client sees it, and tokens per second.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

int64_t now_ns() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

struct Sample {
  double cost_ms = 0, ttft_ms = 0;
  int64_t tokens = 0;
};

class Client {
 public:
  explicit Client(int port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_port = htons(static_cast<uint16_t>(port));
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int on = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (::connect(fd_, reinterpret_cast<sockaddr*>(&a), sizeof a) != 0) fd_ = -1;
  }
  ~Client() {
    if (fd_ >= 0) ::close(fd_);
  }

  // False: the server did not answer as it should.
  bool ask(const std::string& request, Sample& out) {
    const int64_t sent = now_ns();
    if (fd_ < 0 || ::send(fd_, request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size())) return false;
    std::string answer;
    int64_t first = 0;
    char buffer[65536];
    while (answer.find("\r\n0\r\n\r\n") == std::string::npos) {
      ssize_t n = ::recv(fd_, buffer, sizeof buffer, 0);
      if (n <= 0) return false;
      const int64_t at = now_ns();
      answer.append(buffer, static_cast<size_t>(n));
      if (!first && answer.find("data: ") != std::string::npos) first = at;
      if (first == at && answer.find(kSampled) == std::string::npos) first = 0;  // the chunk is not whole yet
    }
    if (answer.compare(0, 12, "HTTP/1.1 200") != 0 || !first) return false;
    out.cost_ms = static_cast<double>(first - number_after(answer, kSampled)) * 1e-6;
    out.ttft_ms = static_cast<double>(first - sent) * 1e-6;
    out.tokens = number_after(answer, "\"completion_tokens\":");
    return out.tokens > 0;
  }

 private:
  static constexpr const char* kSampled = "\"brisk_sampled_at_ns\":";
  static int64_t number_after(const std::string& text, const char* what) {
    auto at = text.find(what);
    return at == std::string::npos ? 0 : std::strtoll(text.c_str() + at + std::strlen(what), nullptr, 10);
  }
  int fd_;
};

std::string request(std::mt19937_64& random, int prompt_tokens, int new_tokens) {
  std::string ids;
  for (int i = 0; i < prompt_tokens; ++i) ids += (i ? "," : "") + std::to_string(100 + random() % 10000);
  std::string body = "{\"prompt\":[" + ids + "],\"temperature\":0,\"ignore_eos\":true,\"stream\":true,\"debug_timing\":true,\"return_token_ids\":true,"
                     "\"stream_options\":{\"include_usage\":true},\"max_tokens\":" + std::to_string(new_tokens) + "}";
  return "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

double percentile(std::vector<double>& v, double p) {
  std::sort(v.begin(), v.end());
  return v[std::min(v.size() - 1, static_cast<size_t>(p * static_cast<double>(v.size())))];
}

}  // namespace

int main(int argc, char** argv) {
  auto argument = [&](int i, int otherwise) { return argc > i ? std::atoi(argv[i]) : otherwise; };
  const int port = argument(1, 8000), requests = argument(2, 500), prompt = argument(3, 16), fresh = argument(4, 8), streams = argument(5, 1);
  std::atomic<int> next{0}, failed{0};
  std::mutex mutex;
  std::vector<double> cost, ttft;
  int64_t tokens = 0;
  const int64_t begin = now_ns();
  std::vector<std::thread> threads;
  for (int t = 0; t < streams; ++t)
    threads.emplace_back([&, t] {
      std::mt19937_64 random(static_cast<uint64_t>(begin) + static_cast<uint64_t>(t));
      Client client(port);
      while (next++ < requests) {
        Sample s;
        const bool ok = client.ask(request(random, prompt, fresh), s);
        std::lock_guard lock(mutex);
        if (!ok) {
          ++failed;
          break;
        }
        cost.push_back(s.cost_ms);
        ttft.push_back(s.ttft_ms);
        tokens += s.tokens;
      }
    });
  for (std::thread& t : threads) t.join();
  const double seconds = static_cast<double>(now_ns() - begin) * 1e-9;
  if (failed || cost.empty()) {
    std::fprintf(stderr, "server_cost: %d of %d streams failed\n", failed.load(), streams);
    return 1;
  }
  std::printf("server's own cost   p50 %.3f ms  p90 %.3f  p99 %.3f  max %.3f\n", percentile(cost, 0.5), percentile(cost, 0.9), percentile(cost, 0.99),
              percentile(cost, 1));
  std::printf("time to first token p50 %.2f ms  p99 %.2f\n", percentile(ttft, 0.5), percentile(ttft, 0.99));
  std::printf("%zu requests, %d at a time, %lld tokens, %.1f tokens/s\n", cost.size(), streams, static_cast<long long>(tokens), static_cast<double>(tokens) / seconds);
  return 0;
}
