// The server without sockets: the table of fields and its page, requests, keys, metrics, chunks.
#include <gtest/gtest.h>

#include <set>

#include "base/file.h"
#include "fake_runner.h"
#include "loop/generation_loop.h"
#include "server/answer.h"
#include "server/fields.h"
#include "server/json_out.h"
#include "server/keys.h"
#include "server/metrics.h"
#include "server/request.h"

namespace brisk {
namespace {

std::string endpoint_names(uint8_t endpoints) {
  std::string out;
  for (auto [bit, name] : {std::pair{kCompletions, "completions"}, {kChat, "chat"}, {kTokenize, "tokenize"}, {kDetokenize, "detokenize"}})
    if (endpoints & bit) out += (out.empty() ? "" : ", ") + std::string(name);
  return out;
}

std::string row(const RequestField& f) {
  std::string what = f.standing == Standing::kImplemented ? f.range
                     : f.standing == Standing::kHarmless  ? "accepted, changes no answer"
                     : std::string(f.neutral) == "[]"     ? "refused"
                                                          : "refused, but for one of `" + std::string(f.neutral) + "`";
  return "| `" + std::string(f.name) + "` | " + endpoint_names(f.endpoints) + " | " + what + " |\n";
}

TEST(ServerFields, PageHoldsTheTable) {
  std::string table = "| field | endpoints | values |\n|---|---|---|\n";
  for (const RequestField& f : request_fields()) table += row(f);
  auto page = read_file(BRISK_TEST_DATA "/../../docs/server.md");
  ASSERT_TRUE(page.ok());
  EXPECT_NE(page->find(table), std::string::npos) << "docs/server.md must hold:\n" << table;
}

TEST(ServerFields, EachIsClearAndOnce) {
  for (Endpoint e : {kCompletions, kChat, kTokenize, kDetokenize}) {
    std::set<std::string> seen;
    for (const RequestField& f : request_fields())
      if (f.endpoints & e) EXPECT_TRUE(seen.insert(f.name).second) << f.name;
  }
  for (const RequestField& f : request_fields()) {
    EXPECT_EQ(std::string(f.range).empty(), f.standing != Standing::kImplemented) << f.name;
    if (f.standing != Standing::kRefused) continue;
    auto neutral = parse_json(f.neutral);
    ASSERT_TRUE(neutral.ok() && neutral->as_array()) << f.name;
  }
}

class ServerRequest : public testing::Test {
 protected:
  void SetUp() override {
    auto made = GenerationLoop::create(std::make_unique<FakeRunner>(FakeOptions{}), nullptr, {});
    ASSERT_TRUE(made.ok()) << made.error().message;
    loop_ = std::move(*made);
    models_.push_back({.name = "m", .loop = loop_.get(), .encode_chat = [](ChatInput in) -> Result<std::vector<int32_t>> {
                         return std::vector<int32_t>(in.messages.as_array()->size(), 7);
                       }});
  }
  ParsedCall parse(const std::string& body, Endpoint e = kCompletions) {
    auto r = parse_call(body, e, models_, "");
    if (auto* error = std::get_if<ApiError>(&r)) ADD_FAILURE() << body << ": " << error->message;
    return std::holds_alternative<ParsedCall>(r) ? std::get<ParsedCall>(r) : ParsedCall{};
  }
  ApiError error(const std::string& body, Endpoint e = kCompletions) {
    auto r = parse_call(body, e, models_, "");
    if (auto* found = std::get_if<ApiError>(&r)) return *found;
    ADD_FAILURE() << body << " was taken";
    return {};
  }
  std::unique_ptr<GenerationLoop> loop_;
  std::vector<ServedModel> models_;
};

TEST_F(ServerRequest, EveryRefusedFieldIsNamedAndItsNeutralValuesPass) {
  for (Endpoint e : {kCompletions, kChat}) {
    const std::string start = e == kChat ? R"({"messages":[{"role":"user","content":"x"}],")" : R"({"prompt":[1],")";
    for (const RequestField& f : request_fields()) {
      if (!(f.endpoints & e)) continue;
      if (f.standing == Standing::kHarmless) EXPECT_EQ(parse(start + f.name + R"(":"anything"})", e).requests.size(), 1u) << f.name;
      if (f.standing != Standing::kRefused) continue;
      EXPECT_EQ(error(start + f.name + R"(":"gold"})", e).param, f.name);
      EXPECT_EQ(parse(start + f.name + R"(":null})", e).requests.size(), 1u) << f.name;
      auto neutral = parse_json(f.neutral);
      for (const Json& v : *neutral->as_array()) EXPECT_EQ(parse(start + f.name + "\":" + to_text(v) + "}", e).requests.size(), 1u) << f.name;
    }
  }
}

TEST_F(ServerRequest, NumbersOutsideTheirRangeNameFieldValueAndRange) {
  for (const RequestField& f : request_fields()) {
    if (!(f.low < f.high) || !(f.endpoints & kCompletions) || std::string(f.name) == "seed") continue;
    for (double bad : {f.low - 1, f.high + 1}) {
      const std::string value = to_text(Json(static_cast<int64_t>(bad)));
      const ApiError e = error("{\"prompt\":[1],\"" + std::string(f.name) + "\":" + value + "}");
      EXPECT_EQ(e.status, 400);
      EXPECT_EQ(e.param, f.name);
      EXPECT_NE(e.message.find(value), std::string::npos) << e.message;
      EXPECT_NE(e.message.find(f.range), std::string::npos) << e.message;
    }
    for (const char* bad : {"\"a\"", "[]", "{}", "true"}) EXPECT_EQ(error("{\"prompt\":[1],\"" + std::string(f.name) + "\":" + bad + "}").param, f.name);
  }
}

TEST_F(ServerRequest, FieldsArrive) {
  ParsedCall c = parse(R"({"model":"m","prompt":[[1,2],[3]],"temperature":0.5,"top_p":0.9,"top_k":5,"min_p":0.1,"seed":-1,"max_tokens":3,
    "presence_penalty":1,"frequency_penalty":-1,"repetition_penalty":2,"logprobs":4,"stop_token_ids":[9],"ignore_eos":true,
    "include_stop_str_in_output":true,"skip_special_tokens":false,"cache_salt":"s","stream":true,"stream_options":{"include_usage":true},
    "return_token_ids":true,"debug_timing":true})");
  ASSERT_EQ(c.requests.size(), 2u);
  const GenerationRequest& r = c.requests[0];
  EXPECT_EQ(r.prompt, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(c.requests[1].prompt, (std::vector<int32_t>{3}));
  EXPECT_EQ(r.sampling.temperature, 0.5f);
  EXPECT_EQ(r.sampling.top_p, 0.9f);
  EXPECT_EQ(r.sampling.top_k, 5);
  EXPECT_EQ(r.sampling.min_p, 0.1f);
  EXPECT_EQ(r.sampling.seed, ~uint64_t{0});
  EXPECT_EQ(r.sampling.presence_penalty, 1);
  EXPECT_EQ(r.sampling.frequency_penalty, -1);
  EXPECT_EQ(r.sampling.repetition_penalty, 2);
  EXPECT_EQ(r.sampling.top_logprobs, 4);
  EXPECT_EQ(r.max_tokens, 3);
  EXPECT_EQ(r.stop_ids, std::vector<int32_t>{9});
  EXPECT_TRUE(r.ignore_eos && r.include_stop && !r.skip_special && r.cache_salt == "s");
  EXPECT_TRUE(c.stream && c.include_usage && c.return_ids && c.debug_timing && c.logprobs && !c.chat);
  const ParsedCall plain = parse(R"({"prompt":[1]})");
  EXPECT_EQ(plain.requests[0].max_tokens, 16);
  EXPECT_EQ(plain.requests[0].sampling.temperature, 1);
  EXPECT_EQ(plain.requests[0].sampling.top_logprobs, -1);
  EXPECT_NE(plain.requests[0].sampling.seed, parse(R"({"prompt":[1]})").requests[0].sampling.seed);
}

TEST_F(ServerRequest, LongPromptsAreRefusedWithBothCounts) {
  std::string ids = "1";
  for (int i = 1; i < 600; ++i) ids += ",1";
  const ApiError e = error("{\"prompt\":[" + ids + "]}");
  EXPECT_EQ(e.code, "context_length_exceeded");
  EXPECT_NE(e.message.find("600"), std::string::npos);
  EXPECT_NE(e.message.find("512"), std::string::npos);
}

TEST_F(ServerRequest, ChatMessages) {
  EXPECT_EQ(parse(R"({"messages":[{"role":"system","content":"a"},{"role":"user","content":"b"}]})", kChat).requests[0].prompt.size(), 2u);
  EXPECT_EQ(error(R"({"messages":"x"})", kChat).param, "messages");
  EXPECT_EQ(error(R"({"messages":[{"role":"user","content":1}]})", kChat).param, "messages[0].content");
  EXPECT_EQ(error(R"({"messages":[{"role":"user","content":"x","age":3}]})", kChat).param, "messages[0]");
  EXPECT_EQ(error(R"({"messages":[{"role":"user","content":"x"}],"chat_template_kwargs":{"messages":[]}})", kChat).param, "chat_template_kwargs");
  EXPECT_EQ(error(R"({"messages":[{"role":"user","content":"x"}],"model":"other"})", kChat).status, 404);
}

TEST(ServerKeys, AreFoundOnlyWhole) {
  ApiKeys keys;
  ASSERT_TRUE(keys.add_lines("# note\nalpha-key\r\n\nbravo-key", "file").ok());
  EXPECT_EQ(keys.find("Bearer alpha-key"), 0u);
  EXPECT_EQ(keys.find("bearer bravo-key"), 1u);
  for (const char* bad : {"", "Bearer ", "Bearer alpha-ke", "Bearer alpha-key ", "alpha-key", "Basic alpha-key", "Bearer # note"})
    EXPECT_EQ(keys.find(bad), std::nullopt) << bad;
  EXPECT_FALSE(ApiKeys().add_lines("# nothing\n", "file").ok());
  EXPECT_FALSE(ApiKeys().add_lines("with space in it", "file").ok());
}

TEST(ServerMetrics, BucketsAreCumulative) {
  Histogram h;
  for (double s : {0.00005, 0.0002, 0.0002, 1000.0}) h.observe(s);
  std::string out;
  h.write(out, "x", "m=\"1\"");
  EXPECT_NE(out.find("x_bucket{m=\"1\",le=\"0.0001\"} 1\n"), std::string::npos) << out;
  EXPECT_NE(out.find("le=\"0.00025\"} 3\n"), std::string::npos) << out;
  EXPECT_NE(out.find("le=\"120\"} 3\n"), std::string::npos) << out;
  EXPECT_NE(out.find("le=\"+Inf\"} 4\n"), std::string::npos) << out;
  EXPECT_NE(out.find("x_count{m=\"1\"} 4\n"), std::string::npos) << out;
}

TEST(ServerAnswer, JsonStringsSurviveAnyBytes) {
  const std::string odd("a\"\\\n\t\0\x7f\xc3\xa9", 9);
  auto back = parse_json(json_string(odd));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back->as_string(), odd);
  EXPECT_TRUE(parse_json(json_string("\xff\xc3")).ok());
}

TEST(ServerAnswer, ChunksAndAnswersAreJson) {
  AnswerStyle style{.chat = true, .id = "i", .model = "m", .logprobs = true, .return_ids = true, .include_usage = true, .debug_timing = true};
  GenerationEvent e;
  e.text = "\"x";
  e.ids = {5};
  e.logprobs = {{{5, "\xe2\x82", -INFINITY}, {{5, "\xe2\x82", -1}, {6, "b", -2}}}};
  e.finish = FinishReason::kStop;
  for (bool chat : {true, false}) {
    style.chat = chat;
    Choice choice;
    std::string out;
    write_chunk(out, style, 0, choice, e, true);
    std::vector<Choice> choices(1);
    choices[0].text = e.text;
    choices[0].logprobs = e.logprobs;
    choices[0].finish = e.finish;
    write_usage_chunk(out, style, choices);
    int events = 0;
    for (size_t at = 0; at < out.size(); ++events) {
      const size_t end = out.find("\n\n", at);
      ASSERT_EQ(out.substr(at, 6), "data: ");
      ASSERT_TRUE(parse_json(out.substr(at + 6, end - at - 6)).ok()) << out;
      at = end + 2;
    }
    EXPECT_EQ(events, chat ? 3 : 2);
    EXPECT_NE(out.find("bytes:\\\\xe2\\\\x82"), std::string::npos) << out;
    auto whole = parse_json(whole_answer(style, choices));
    ASSERT_TRUE(whole.ok());
    EXPECT_EQ(*(*whole->find("choices")->as_array())[0].find("finish_reason"), Json("stop"));
  }
}

}  // namespace
}  // namespace brisk
