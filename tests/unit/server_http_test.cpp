// The server over real sockets with a runner that needs no model, so that sanitizers see all of it.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <thread>

#include "fake_runner.h"
#include "loop/generation_loop.h"
#include "server/server.h"

namespace brisk {
namespace {

class Socket {
 public:
  explicit Socket(uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_port = htons(port);
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&a), sizeof a), 0);
  }
  Socket(Socket&& other) : fd_(std::exchange(other.fd_, -1)) {}
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  void send(const std::string& data) { EXPECT_EQ(::send(fd_, data.data(), data.size(), MSG_NOSIGNAL), static_cast<ssize_t>(data.size())); }
  // Until `end` has come, or the connection's end.
  std::string read(const std::string& end) {
    std::string out;
    char buffer[4096];
    while (out.find(end) == std::string::npos) {
      ssize_t n = ::recv(fd_, buffer, sizeof buffer, 0);
      if (n <= 0) break;
      out.append(buffer, static_cast<size_t>(n));
    }
    return out;
  }

 private:
  int fd_;
};

std::string post(const std::string& path, const std::string& body, const std::string& more = "") {
  return "POST " + path + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + more + "Content-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

class ServerHttp : public testing::Test {
 protected:
  void start(std::chrono::microseconds step_time = {}, LoopOptions loop_options = {}) {
    FakeOptions o;
    o.step_time = step_time;
    o.poison = poison_;
    ServerOptions options;
    options.http.port = 0;
    options.http.max_body_bytes = 65536;
    options.drain_s = 0.2;
    options.version = "test";
    auto server = Server::bind(options);
    ASSERT_TRUE(server.ok()) << server.error().message;
    server_ = std::move(*server);
    auto loop = GenerationLoop::create(std::make_unique<FakeRunner>(o), nullptr, loop_options);
    ASSERT_TRUE(loop.ok());
    loop_ = std::move(*loop);
    std::promise<void> listening;
    thread_ = std::thread([this, &listening] {
      status_ = server_->run({{.name = "m", .loop = loop_.get(), .encode_chat = [](ChatInput) -> Result<std::vector<int32_t>> { return std::vector<int32_t>{1, 2}; }}},
                             [&] { listening.set_value(); });
    });
    listening.get_future().wait();
  }
  void stop() {
    if (!thread_.joinable()) return;
    ::kill(::getpid(), SIGTERM);  // as a supervisor would; the server has taken the signal over
    thread_.join();
    EXPECT_TRUE(status_.ok()) << status_.error().message;
  }
  void TearDown() override {
    stop();
    loop_.reset();
  }
  bool wait_idle() {
    for (int i = 0; i < 500; ++i, std::this_thread::sleep_for(std::chrono::milliseconds(10)))
      if (auto s = loop_->stats(); s.running + s.waiting == 0) return true;
    return false;
  }
  std::unique_ptr<Server> server_;
  std::unique_ptr<GenerationLoop> loop_;
  std::thread thread_;
  Status status_;
  int32_t poison_ = -1;  // a prompt that holds this id samples no token
};

TEST_F(ServerHttp, AnswersOneRequestAfterTheOtherOnAConnection) {
  start();
  Socket s(server_->port());
  s.send("GET /version HTTP/1.1\r\n\r\n");
  EXPECT_NE(s.read("}").find("\"test\""), std::string::npos);
  for (int i = 0; i < 3; ++i) {
    s.send(post("/v1/completions", R"({"prompt":[1,2,3],"max_tokens":5,"temperature":0,"return_token_ids":true})"));
    const std::string whole = s.read("\"total_tokens\":8");
    EXPECT_NE(whole.find("200 OK"), std::string::npos) << whole;
    EXPECT_NE(whole.find("\"finish_reason\":\"length\""), std::string::npos) << whole;
  }
  s.send(post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"x"}],"max_tokens":5,"stream":true})"));
  const std::string stream = s.read("\r\n0\r\n\r\n");
  EXPECT_NE(stream.find("\"role\":\"assistant\""), std::string::npos) << stream;
  EXPECT_NE(stream.find("data: [DONE]"), std::string::npos) << stream;
}

TEST_F(ServerHttp, ManyStreamsAtOnce) {
  start();
  std::vector<std::thread> clients;
  std::atomic<int> done = 0;
  for (int i = 0; i < 16; ++i)
    clients.emplace_back([&, i] {
      Socket s(server_->port());
      for (int k = 0; k < 4; ++k) {
        s.send(post("/v1/completions", "{\"prompt\":[[" + std::to_string(i) + "],[" + std::to_string(k) + ",4]],\"max_tokens\":9,\"stream\":true}"));
        if (s.read("\r\n0\r\n\r\n").find("data: [DONE]") != std::string::npos) ++done;
      }
    });
  for (auto& c : clients) c.join();
  EXPECT_EQ(done, 64);
}

TEST_F(ServerHttp, ClientsThatLeaveAreForgotten) {
  start(std::chrono::milliseconds(2));
  for (const char* stream : {"true", "false"}) {
    for (int i = 0; i < 4; ++i) {
      Socket s(server_->port());
      s.send(post("/v1/completions", std::string(R"({"prompt":[1,2,3],"max_tokens":500,"stream":)") + stream + "}"));
      if (i % 2) s.send("GET /health HTTP/1.1\r\n\r\n");  // sent ahead, and then gone as well
      for (int t = 0; t < 500 && loop_->stats().running == 0; ++t) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    EXPECT_TRUE(wait_idle());
  }
  EXPECT_EQ(loop_->stats().finished_cancelled, 8);
}

// What the runner gives for logits that are not numbers ends one request, not its neighbours, nor the server.
TEST_F(ServerHttp, AFaultInOneSequenceEndsThatRequestOnly) {
  poison_ = 49;
  FakeOptions fake;
  fake.poison = poison_;
  std::vector<int32_t> prompt = {1, 2, 3};
  while (fake_answer(prompt, {}, 43, {}, fake).size() < 40) ++prompt[0];
  std::string good = std::to_string(prompt[0]) + ",2,3", ids;
  for (int32_t id : fake_answer(prompt, {}, 43, {}, fake)) ids += (ids.empty() ? "" : ",") + std::to_string(id);
  start(std::chrono::milliseconds(1));
  Socket neighbour(server_->port());
  neighbour.send(post("/v1/completions", "{\"prompt\":[" + good + "],\"max_tokens\":40,\"temperature\":0,\"return_token_ids\":true}"));
  for (int t = 0; t < 500 && loop_->stats().running == 0; ++t) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  for (bool stream : {false, true, false}) {
    Socket s(server_->port());
    s.send(post("/v1/completions", std::string("{\"prompt\":[7,49],\"max_tokens\":9,\"stream\":") + (stream ? "true}" : "false}")));
    const std::string answer = s.read("}}");
    EXPECT_NE(answer.find("no valid token"), std::string::npos) << answer;
    EXPECT_EQ(answer.substr(0, 12), "HTTP/1.1 500") << answer;  // nothing of a stream was sent yet
  }
  const std::string whole = neighbour.read("\"total_tokens\":43");
  EXPECT_NE(whole.find("\"finish_reason\":\"length\""), std::string::npos) << whole;
  EXPECT_NE(whole.find(ids), std::string::npos) << whole << " must hold " << ids;
  Socket after(server_->port());
  after.send("GET /health/ready HTTP/1.1\r\n\r\n");
  EXPECT_EQ(after.read("\r\n").substr(0, 12), "HTTP/1.1 200");
}

// The next step waits for a first token to be sent, and with a limit this long a hold that nobody drops would be seen.
TEST_F(ServerHttp, EveryHoldOfAStepIsDropped) {
  start({}, {.max_gap = std::chrono::seconds(20)});
  const auto begin = std::chrono::steady_clock::now();
  const std::string two = post("/v1/completions", R"({"prompt":[[1],[2,3]],"max_tokens":200,"ignore_eos":true,"stream":true})");
  for (int i = 0; i < 20; ++i) {
    Socket stays(server_->port()), goes(server_->port());
    goes.send(two);
    stays.send(two);
    if (i % 2) EXPECT_NE(goes.read("data: ").find("200 OK"), std::string::npos);
    { const Socket closed = std::move(goes); }
    EXPECT_NE(stays.read("\r\n0\r\n\r\n").find("data: [DONE]"), std::string::npos);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  EXPECT_TRUE(wait_idle());
}

TEST_F(ServerHttp, RefusesWhatIsTooLargeOrMalformed) {
  start();
  auto ask = [&](const std::string& request) {
    Socket s(server_->port());
    s.send(request);
    return s.read("}}").substr(0, 12);
  };
  EXPECT_EQ(ask("POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 99999\r\n\r\n"), "HTTP/1.1 413");
  EXPECT_EQ(ask("GET / HTTP/1.1\r\nX: " + std::string(40000, 'a') + "\r\n\r\n"), "HTTP/1.1 431");
  EXPECT_EQ(ask("what?\r\n\r\n"), "HTTP/1.1 400");
  EXPECT_EQ(ask(post("/v1/completions", "{")), "HTTP/1.1 400");
  EXPECT_EQ(ask(post("/nowhere", "{}")), "HTTP/1.1 404");
}

TEST_F(ServerHttp, AFullQueueSaysWhenToComeBack) {
  start(std::chrono::milliseconds(5), {.max_queue = 2});
  std::string prompts = "[1]";
  for (int i = 2; i < 40; ++i) prompts += ",[" + std::to_string(i) + "]";
  Socket s(server_->port());
  s.send(post("/v1/completions", "{\"prompt\":[" + prompts + "],\"max_tokens\":400}"));
  const std::string answer = s.read("}}");
  EXPECT_EQ(answer.substr(0, 12), "HTTP/1.1 503") << answer;
  EXPECT_NE(answer.find("Retry-After: 1\r\n"), std::string::npos) << answer;
  EXPECT_NE(answer.find("queue_full"), std::string::npos) << answer;
  EXPECT_TRUE(wait_idle());  // the prompts that were taken are cancelled
}

TEST_F(ServerHttp, ASignalEndsWhatDoesNotEndByItself) {
  start(std::chrono::milliseconds(5));
  Socket s(server_->port());
  s.send(post("/v1/completions", R"({"prompt":[1,2,3],"max_tokens":400,"stream":true,"return_token_ids":true})"));
  EXPECT_NE(s.read("data: ").find("200 OK"), std::string::npos);
  stop();
  EXPECT_NE(s.read("data: [DONE]").find("\"error\""), std::string::npos);
}

TEST(ServerBind, SaysWhyNot) {
  ServerOptions options;
  options.http.port = 0;
  options.http.host = "0.0.0.0";
  EXPECT_FALSE(Server::bind(options).ok());
  options.insecure = true;
  EXPECT_TRUE(Server::bind(options).ok());
  options.http.host = "nonsense";
  EXPECT_EQ(Server::bind(options).error().kind, ErrorKind::kInvalid);
  options.http.host = "192.0.2.1";  // reserved for documentation: nobody's
  EXPECT_EQ(Server::bind(options).error().kind, ErrorKind::kEnvironment);
}

}  // namespace
}  // namespace brisk
