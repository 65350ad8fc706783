#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "engine/inspect.h"
#include "engine_sample.h"

namespace brisk {
namespace {

using test::TemporaryPath;
using Json = nlohmann::json;

InspectReport sample_report() {
  EngineContent c = test::sample_content(3);
  InspectExtras extras;
  extras.file = "<x>.engine";
  extras.file_bytes = 123456;
  extras.content_hash = std::string(64, 'a');
  extras.baselines = {{"bench", {{"threads", "2"}}, {{"ttft_ms", 41.5}}}};
  extras.memory = [](const std::string&, const std::map<std::string, int64_t>& s) -> std::optional<InspectMemory> {
    if (!s.count("T")) return std::nullopt;
    return InspectMemory{s.at("T") * 1000, s.at("T") * 900, s.at("T") * 5000};
  };
  extras.step_ms = [](const std::string& f, size_t step) -> std::optional<double> {
    return f == "step" && step < 5 ? std::optional(0.25) : std::nullopt;
  };
  return inspect(c, extras);
}

TEST(EngineInspect, JsonHoldsEveryStepAndFigure) {
  Json j = Json::parse(inspect_json(sample_report()));
  EXPECT_EQ(j["device"], "cpu");
  EXPECT_EQ(j["required_isa"], Json({"avx2"}));
  EXPECT_EQ(j["metadata"]["label"], "<v1>");
  ASSERT_EQ(j["functions"].size(), 3u);
  EXPECT_EQ(j["functions"][0]["steps"][1]["depth"], 1);  // of choose: inside the first branch
  const Json& step = j["functions"][2];
  EXPECT_EQ(step["name"], "step");
  EXPECT_EQ(step["steps"].size(), 2u + 3 * 4 + 3);
  EXPECT_EQ(step["steps"][3]["kernel"], "t.linear v3");
  EXPECT_EQ(step["steps"][3]["precision"], "i8/row/f32");
  EXPECT_EQ(step["steps"][3]["ms"], 0.25);
  EXPECT_EQ(step["steps"][3]["in"], "f32[T, 32], f32[64, 32]");
  // 3 layers, 2 heads of 8, keys and values, f32
  EXPECT_EQ(step["state_bytes_per_token"], 3 * 2 * 8 * 2 * 4);
  EXPECT_EQ(step["arena"][2]["bytes"], 512000);
  EXPECT_EQ(step["arena"][2]["live_bytes"], 512 * 900);
  EXPECT_EQ(step["arena"][2]["sum_bytes"], 512 * 5000);
  EXPECT_EQ(j["baselines"][0]["figures"]["ttft_ms"], 41.5);
  EXPECT_EQ(j["layer_loss"][0]["sqnr_db"], 41.5);
  int64_t bytes = 0;
  for (auto& g : j["weights"]) bytes += g["bytes"].get<int64_t>();
  EXPECT_EQ(bytes, j["weight_bytes"].get<int64_t>());
}

TEST(EngineInspect, TextPutsEqualLayersTogether) {
  std::string text = inspect_text(sample_report());
  EXPECT_NE(text.find("target          cpu, instruction sets: avx2\n"), std::string::npos) << text;
  EXPECT_NE(text.find("symbol (min / opt / max)  T 1 / 8 / 512"), std::string::npos) << text;
  EXPECT_NE(text.find("3      PagedAttention"), std::string::npos) << text;
  EXPECT_NE(text.find("layers.*"), std::string::npos) << text;
  EXPECT_NE(text.find("temporaries at max"), std::string::npos) << text;
  EXPECT_NE(text.find("1      layers.0.out  i8/row/f32  39.2 dB"), std::string::npos) << text;
}

TEST(EngineInspect, StrangersNamesStayText) {
  EngineContent c = test::sample_content();
  c.metadata["label"] = "a\x1b[2J<script>\n\"x\"\xff";
  InspectReport r = inspect(c);
  EXPECT_EQ(inspect_text(r).find('\x1b'), std::string::npos);
  std::string page = inspect_html(r);
  EXPECT_EQ(page.find("<script>"), std::string::npos);
  EXPECT_NE(page.find("a\\x1b[2J&lt;script&gt;\\x0a&quot;x&quot;"), std::string::npos);
  EXPECT_TRUE(Json::accept(inspect_json(r)));
}

TEST(EngineInspect, ThePageNeedsNothingFromOutside) {
  std::string page = inspect_html(sample_report());
  EXPECT_EQ(page.find("<!doctype html>"), 0u);
  EXPECT_NE(page.find("&lt;x&gt;.engine"), std::string::npos);
  for (const char* outside : {"http", "src=", "href=", "url(", "@import"}) EXPECT_EQ(page.find(outside), std::string::npos) << outside;
}

TEST(EngineBaseline, AreBoundToTheContent) {
  TemporaryPath file("b.engine");
  TemporaryPath json("b.engine.json");
  std::string hash(64, 'b');
  auto none = read_baselines(file.path, hash);
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->empty());
  ASSERT_TRUE(write_baselines(file.path, hash, {{"bench", {{"machine", "m\"1"}}, {{"ttft_ms", 12.5}, {"peak_rss_bytes", 2e9}}}}).ok());
  auto back = read_baselines(file.path, hash);
  ASSERT_TRUE(back.ok()) << back.error().message;
  ASSERT_EQ(back->size(), 1u);
  EXPECT_EQ(back->front().settings.at("machine"), "m\"1");
  EXPECT_EQ(back->front().figures.at("peak_rss_bytes"), 2e9);
  auto other = read_baselines(file.path, std::string(64, 'c'));
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().message.find("belong to other content"), std::string::npos) << other.error().message;
  EXPECT_FALSE(write_baselines(file.path, hash, {{"x", {}, {{"nan", NAN}}}}).ok());
}

TEST(EngineBaseline, MalformedFilesAreErrors) {
  TemporaryPath file("m.engine");
  TemporaryPath json("m.engine.json");
  for (const char* text : {"", "{", "[]", "{\"content_sha256\": 1, \"baselines\": []}", "{\"content_sha256\": \"h\", \"baselines\": {}}",
                           "{\"content_sha256\": \"h\", \"baselines\": [3]}",
                           "{\"content_sha256\": \"h\", \"baselines\": [{\"name\": \"a\", \"settings\": {\"k\": 1}, \"figures\": {}}]}",
                           "{\"content_sha256\": \"h\", \"baselines\": [{\"name\": \"a\", \"settings\": {}, \"figures\": {\"k\": \"1\"}}]}"}) {
    std::ofstream(json.path) << text;
    auto r = read_baselines(file.path, "h");
    EXPECT_FALSE(r.ok()) << text;
    if (!r.ok()) EXPECT_NE(r.error().message.find(json.path), std::string::npos);
  }
}

}  // namespace
}  // namespace brisk
