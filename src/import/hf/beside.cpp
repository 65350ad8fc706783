#include "import/hf/beside.h"

#include "base/file.h"
#include "import/hf/hf_json.h"
#include "import/hf/tokenizer.h"

namespace brisk {
namespace {

// Logits of a function that takes ids; 0 if it does not look like one.
int64_t vocabulary(const Graph& g) {
  bool ids = false;
  for (ValueId v : g.inputs) ids = ids || (is_integer(g.value(v).type.dtype) && g.value(v).type.ranked && g.value(v).type.rank() == 2);
  for (ValueId v : g.outputs) {
    const Type& t = g.value(v).type;
    if (ids && is_float(t.dtype) && t.ranked && t.rank() == 3) return t.shape[2].constant_or(0);
  }
  return 0;
}

Status read(Model& model, const std::string& folder, int64_t vocab) {
  BRISK_ASSIGN(model.max_context, read_context(folder));
  BRISK_ASSIGN(auto tokenizer, hf_tokenizer(folder, vocab, model.notes));
  std::vector<int32_t> end_ids;
  if (tokenizer) {
    model.tokenizer = tokenizer->serialize();
    end_ids.assign(tokenizer->eos_ids().begin(), tokenizer->eos_ids().end());
  }
  BRISK_ASSIGN(model.generation_config, read_generation(folder, vocab, end_ids));
  BRISK_ASSIGN(model.chat_template, read_chat_template(folder));
  return {};
}

}  // namespace

Status read_text_files(Model& model, const std::string& folder, bool wanted) {
  auto main = model.functions.find("main");
  int64_t vocab = main == model.functions.end() ? 0 : vocabulary(main->second);
  if (vocab == 0) return {};
  if (wanted && !is_file(folder + "/tokenizer.json")) return invalid(folder + ": no tokenizer.json");
  if (!wanted) {
    bool any = false;
    for (const char* name : {"tokenizer.json", "generation_config.json", "config.json", "genai_config.json"}) any = any || is_file(folder + "/" + name);
    if (!any) return {};
  }
  auto s = read(model, folder, vocab);
  if (s.ok() || wanted) return s;
  model.notes.push_back("files beside the model are not used: " + s.error().message);
  model.tokenizer.clear(), model.chat_template.clear(), model.generation_config.clear();
  return {};
}

}  // namespace brisk
