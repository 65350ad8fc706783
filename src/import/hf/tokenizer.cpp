#include "import/hf/tokenizer.h"

#include <algorithm>

#include "base/file.h"
#include "import/hf/hf_json.h"
#include "text/tokenizer_json.h"

namespace brisk {
namespace {

Result<std::string> read_if_there(const std::string& path, uint64_t limit) {
  if (!is_file(path)) return std::string();
  return read_file(path, limit);
}

// Drops the added tokens at the end that the embedding has no rows for.
Status fit(TokenizerModel& m, int64_t vocab, const std::string& path, std::vector<std::string>& notes) {
  auto limit = static_cast<size_t>(vocab);
  if (m.tokens.size() <= limit) return {};
  auto beyond = [&](int32_t id) { return id >= vocab; };
  size_t surplus = m.tokens.size() - limit;
  auto added = static_cast<size_t>(std::count_if(m.added.begin(), m.added.end(), [&](const AddedToken& t) { return beyond(t.id); }));
  if (added < surplus)
    return invalid(path + ": " + std::to_string(m.tokens.size()) + " tokens, the embedding has only " + std::to_string(vocab) + " rows");
  std::erase_if(m.added, [&](const AddedToken& t) { return beyond(t.id); });
  for (auto* ids : {&m.prefix_ids, &m.suffix_ids, &m.end_ids}) std::erase_if(*ids, beyond);
  for (int32_t* id : {&m.bos, &m.eos, &m.unknown, &m.pad})
    if (beyond(*id)) *id = -1;
  m.tokens.resize(limit);
  if (m.types.size() > limit) m.types.resize(limit);
  if (m.scores.size() > limit) m.scores.resize(limit);
  notes.push_back(std::to_string(surplus) + " added tokens have no row in the embedding and are left out");
  return {};
}

}  // namespace

Result<std::shared_ptr<const Tokenizer>> hf_tokenizer(const std::string& folder, int64_t vocab, std::vector<std::string>& notes) {
  std::string path = folder + "/tokenizer.json";
  if (!is_file(path)) {
    bool pieces = is_file(folder + "/tokenizer.model");
    notes.push_back(folder + ": no tokenizer.json" + (pieces ? " (tokenizer.model alone is not read; transformers' save_pretrained of a fast tokenizer writes one)" : ""));
    return std::shared_ptr<const Tokenizer>();
  }
  constexpr uint64_t kMaxTokenizer = 256u << 20;
  BRISK_ASSIGN(auto tokenizer, read_file(path, kMaxTokenizer));
  BRISK_ASSIGN(auto config, read_if_there(folder + "/tokenizer_config.json", kMaxHfJson));
  BRISK_ASSIGN(auto generation, read_if_there(folder + "/generation_config.json", kMaxHfJson));
  BRISK_ASSIGN(auto chat, read_if_there(folder + "/chat_template.jinja", kMaxHfJson));
  auto model = tokenizer_from_json({tokenizer, config, generation, chat});
  if (!model.ok()) return std::move(model).error().in(folder);
  BRISK_TRY(fit(*model, vocab, path, notes));
  auto made = make_tokenizer(std::move(model).value());
  if (!made.ok()) return std::move(made).error().in(path);
  return std::move(made).value();
}

}  // namespace brisk
