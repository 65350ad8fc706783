#include "import/hf/import.h"

#include "base/file.h"
#include "import/decoder/builder.h"
#include "import/hf/hf_json.h"
#include "import/hf/safetensors.h"
#include "import/hf/tokenizer.h"

namespace brisk {
namespace {

class HfStore : public TensorStore {
 public:
  explicit HfStore(const SafeTensors& tensors) : tensors_(tensors) {}

  std::vector<std::string> names() const override {
    std::vector<std::string> out;
    out.reserve(tensors_.tensors().size());
    for (const SafeTensor& t : tensors_.tensors()) out.push_back(t.name);
    return out;
  }

  std::string unsupported(const std::string& name) const override {
    const SafeTensor& t = *tensors_.find(name);
    bool plain = t.dtype == DType::kF32 || t.dtype == DType::kF16 || t.dtype == DType::kBF16;
    return plain ? "" : "element type " + t.type + " (supported: F32, F16, BF16)";
  }

  Result<ConstantPtr> load(const std::string& name) const override { return tensors_.load(*tensors_.find(name)); }

 private:
  const SafeTensors& tensors_;
};

}  // namespace

Result<Model> import_hf(const std::string& folder, const HfOptions& options) {
  Problems problems;
  BRISK_ASSIGN(auto config, read_hf_config(folder, problems));
  if (!config.family) return problems.error(folder);
  BRISK_ASSIGN(auto tensors, SafeTensors::open_folder(folder));
  const DecoderConfig& c = config.decoder;
  if (auto s = check_config(c, static_cast<int64_t>(tensors->tensors().size())); !s.ok()) return std::move(s).error().in(folder + "/config.json");
  Model model;
  model.metadata["source_format"] = "huggingface";
  model.default_precision = "bf16";
  const std::string& text_folder = options.tokenizer_folder.empty() ? folder : options.tokenizer_folder;
  std::vector<int32_t> end_ids;
  auto tokenizer = hf_tokenizer(text_folder, c.vocab, model.notes);
  if (!tokenizer.ok() && tokenizer.error().kind != ErrorKind::kUnsupported) return std::move(tokenizer).error();
  if (!tokenizer.ok()) {
    problems.add(tokenizer.error().message);
  } else if (const Tokenizer* t = tokenizer->get()) {
    model.tokenizer = t->serialize();
    end_ids.assign(t->eos_ids().begin(), t->eos_ids().end());
  }
  BRISK_ASSIGN(model.generation_config, read_generation(folder, c.vocab, end_ids));
  BRISK_ASSIGN(model.chat_template, read_chat_template(text_folder));
  BRISK_TRY(build_model(model, c, *config.family, WeightFormat::kHf, HfStore(*tensors), problems, folder));
  return model;
}

}  // namespace brisk
