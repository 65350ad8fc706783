#include "import/gguf/tokenizer.h"

#include <algorithm>

#include "text/tokenizer_gguf.h"

namespace brisk {
namespace {

// Reads keys until the first one is wrong; what came after it stays empty.
class Reader {
 public:
  explicit Reader(const GgufFile& file) : file_(file) {}

  std::string text(const std::string& key) {
    auto v = keep(file_.text(key));
    return std::string(v.value_or(""));
  }
  std::vector<std::string_view> texts(const std::string& key) { return keep(file_.texts("tokenizer.ggml." + key)).value_or(std::vector<std::string_view>()); }
  std::optional<bool> flag(const std::string& key) { return keep(file_.flag("tokenizer.ggml." + key)); }
  // Special ids are often nonsense in the wild; the tokenizer drops those out of range.
  std::optional<int64_t> id(const std::string& key) { return keep(file_.integer("tokenizer.ggml." + key, INT64_MIN, INT64_MAX)); }

  template <class T> std::vector<T> numbers(const std::string& key) {
    auto v = keep(file_.numbers("tokenizer.ggml." + key));
    std::vector<T> out;
    if (!v) return out;
    out.reserve(v->size());
    for (double d : *v) out.push_back(static_cast<T>(d >= -2e9 && d <= 2e9 ? d : 0));
    return out;
  }
  // A list of bytes.
  std::string_view bytes(const std::string& key) {
    const GgufValue* v = file_.find("tokenizer.ggml." + key);
    bool small = v && (v->element == GgufType::kU8 || v->element == GgufType::kI8);
    if (!v || v->type != GgufType::kArray || !small) return {};
    return {reinterpret_cast<const char*>(v->bytes.data()), v->bytes.size()};
  }
  Status status() { return error_ ? Status(std::move(*error_)) : Status(); }

 private:
  template <class T> std::optional<T> keep(Result<std::optional<T>> r) {
    if (r.ok()) return std::move(r).value();
    if (!error_) error_ = std::move(r).error();
    return std::nullopt;
  }

  const GgufFile& file_;
  std::optional<Error> error_;
};

}  // namespace

Result<std::shared_ptr<const Tokenizer>> gguf_tokenizer(const GgufFile& file) {
  if (!file.find("tokenizer.ggml.model")) return std::shared_ptr<const Tokenizer>();
  Reader r(file);
  GgufTokenizerFields f;
  f.model = r.text("tokenizer.ggml.model"), f.pre = r.text("tokenizer.ggml.pre");
  f.tokens = r.texts("tokens"), f.merges = r.texts("merges");
  f.scores = r.numbers<float>("scores"), f.types = r.numbers<int32_t>("token_type");
  f.bos = r.id("bos_token_id"), f.eos = r.id("eos_token_id"), f.eot = r.id("eot_token_id"), f.eom = r.id("eom_token_id");
  f.unknown = r.id("unknown_token_id"), f.separator = r.id("seperator_token_id"), f.padding = r.id("padding_token_id");
  f.mask = r.id("mask_token_id"), f.cls = r.id("cls_token_id");
  f.add_bos = r.flag("add_bos_token"), f.add_eos = r.flag("add_eos_token"), f.add_space_prefix = r.flag("add_space_prefix");
  f.remove_extra_whitespaces = r.flag("remove_extra_whitespaces");
  f.normalizer_lowercase = r.flag("normalizer.lowercase"), f.normalizer_strip_accents = r.flag("normalizer.strip_accents");
  f.precompiled_charsmap = r.bytes("precompiled_charsmap");
  f.chat_template = r.text("tokenizer.chat_template"), f.general_name = r.text("general.name");
  BRISK_TRY(r.status());
  auto model = tokenizer_from_gguf(f);
  if (!model.ok()) return std::move(model).error().in(file.path());
  auto made = make_tokenizer(std::move(model).value());
  if (!made.ok()) return std::move(made).error().in(file.path());
  return std::move(made).value();
}

}  // namespace brisk
