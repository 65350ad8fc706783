// Every family of the importer, from a real folder to logits, on the reference kernels, against transformers.
// tests/data/families and families.json: tools/oracles/families.py
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "backend/ref/ref.h"
#include "compiler/compile.h"
#include "import/hf/import.h"
#include "runtime/engine_step_runner.h"

namespace brisk {
namespace {

Result<std::unique_ptr<StepRunner>> runner_for(const std::string& folder, const Registry& registry, const std::shared_ptr<Device>& device) {
  BRISK_ASSIGN(Model model, import_hf(folder));
  CompileOptions options;
  options.precision = Precision::kFp32;
  BRISK_ASSIGN(auto content, compile(std::move(model), options, {registry, device, {}}));
  auto shared = std::make_shared<const EngineContent>(std::move(content));
  BRISK_ASSIGN(auto engine, LoadedEngine::create(shared, device, registry));
  StepRunnerOptions o;
  o.limits.max_tokens = 32, o.limits.max_sequences = 32, o.limits.blocks = 2, o.limits.max_blocks_per_sequence = 2;
  return make_step_runner(engine, {}, o);
}

// Logits of ids [begin, end) of one sequence, each row of them.
Result<std::vector<float>> logits(StepRunner& runner, const std::vector<int32_t>& ids, size_t begin, size_t end) {
  StepInput in;
  in.seq_starts = {0, static_cast<int32_t>(end - begin)}, in.context_lens = {static_cast<int32_t>(end)};
  in.table_columns = 2, in.block_tables = {1, 0}, in.want_logits = true;
  for (size_t i = begin; i < end; ++i) {
    in.ids.push_back(ids[i]), in.positions.push_back(static_cast<int32_t>(i));
    in.logit_rows.push_back(static_cast<int32_t>(i - begin)), in.slots.push_back(static_cast<int32_t>(i));
  }
  in.params.resize(in.ids.size());
  BRISK_ASSIGN(Ticket ticket, runner.submit(in));
  BRISK_ASSIGN(auto out, runner.wait(ticket));
  return std::move(out.logits);
}

TEST(Families, LogitsMatchTransformersWholeAndInChunks) {
  Registry registry;
  ref::add_kernels(registry);
  std::shared_ptr<Device> device = ref::make_device();
  std::ifstream file(BRISK_TEST_DATA "/families.json");
  auto cases = nlohmann::json::parse(file);
  ASSERT_EQ(cases.size(), 8u);
  for (const auto& c : cases) {
    std::string name = c["name"];
    auto runner = runner_for(BRISK_TEST_DATA "/families/" + name, registry, device);
    ASSERT_TRUE(runner.ok()) << name << ": " << runner.error().message;
    std::vector<int32_t> ids = c["ids"];
    auto whole = logits(**runner, ids, 0, ids.size());
    ASSERT_TRUE(whole.ok()) << name << ": " << whole.error().message;
    std::vector<float> chunks;
    for (auto [begin, end] : {std::pair<size_t, size_t>{0, 13}, {13, 14}, {14, ids.size()}}) {
      auto part = logits(**runner, ids, begin, end);
      ASSERT_TRUE(part.ok()) << name << ": " << part.error().message;
      chunks.insert(chunks.end(), part->begin(), part->end());
    }
    size_t vocab = c["logits"][0].size();
    ASSERT_EQ(whole->size(), ids.size() * vocab);
    EXPECT_EQ(*whole, chunks) << name << ": chunks change the answer";
    float worst = 0;
    for (size_t i = 0; i < whole->size(); ++i) worst = std::max(worst, std::abs((*whole)[i] - c["logits"][i / vocab][i % vocab].get<float>()));
    EXPECT_LT(worst, 2e-5f) << name;  // logits up to 6.4 in fp32, printed with 6 digits
  }
}

}  // namespace
}  // namespace brisk
