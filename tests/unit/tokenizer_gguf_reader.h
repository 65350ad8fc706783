// Test helper: the tokenizer.* metadata of a GGUF file that is known to be well formed.
#pragma once
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>

#include "text/tokenizer_gguf.h"

namespace brisk {

// Views in the result point into `file`.
class GgufFieldsReader {
 public:
  explicit GgufFieldsReader(std::string_view file) : file_(file) {}

  GgufTokenizerFields read() {
    take(4);
    number<uint32_t>();  // version
    number<uint64_t>();  // tensors
    for (uint64_t n = number<uint64_t>(); n > 0; --n) {
      std::string key(text());
      value(key, number<uint32_t>());
    }
    return std::move(fields_);
  }

 private:
  enum { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };

  std::string_view take(size_t n) {
    if (n > file_.size() - at_) throw std::runtime_error("GGUF file ends early");
    at_ += n;
    return file_.substr(at_ - n, n);
  }
  template <class T>
  T number() {
    T v;
    std::memcpy(&v, take(sizeof v).data(), sizeof v);
    return v;
  }
  std::string_view text() { return take(number<uint64_t>()); }

  int64_t integer(uint32_t type) {
    switch (type) {
      case kU8: case kBool: return number<uint8_t>();
      case kI8: return number<int8_t>();
      case kU16: return number<uint16_t>();
      case kI16: return number<int16_t>();
      case kU32: return number<uint32_t>();
      case kI32: return number<int32_t>();
      case kU64: case kI64: return number<int64_t>();
      case kF32: return int64_t(number<float>());
      case kF64: return int64_t(number<double>());
      default: throw std::runtime_error("GGUF value of unknown type");
    }
  }

  void value(std::string_view key, uint32_t type) {
    if (type == kString) {
      std::string_view s = text();
      if (key == "tokenizer.ggml.model") fields_.model = s;
      if (key == "tokenizer.ggml.pre") fields_.pre = s;
      if (key == "tokenizer.chat_template") fields_.chat_template = s;
      if (key == "general.name") fields_.general_name = s;
    } else if (type == kArray) {
      array(key);
    } else {
      single(key, integer(type));
    }
  }

  void array(std::string_view key) {
    uint32_t type = number<uint32_t>();
    uint64_t n = number<uint64_t>();
    if (key == "tokenizer.ggml.precompiled_charsmap") {
      fields_.precompiled_charsmap = take(n);
      return;
    }
    for (uint64_t i = 0; i < n; ++i) {
      if (type == kString) {
        std::string_view s = text();
        if (key == "tokenizer.ggml.tokens") fields_.tokens.push_back(s);
        if (key == "tokenizer.ggml.merges") fields_.merges.push_back(s);
      } else if (key == "tokenizer.ggml.scores") {
        fields_.scores.push_back(number<float>());
      } else {
        int64_t v = integer(type);
        if (key == "tokenizer.ggml.token_type") fields_.types.push_back(int32_t(v));
      }
    }
  }

  void single(std::string_view key, int64_t v) {
    auto& f = fields_;
    constexpr std::string_view kPrefix = "tokenizer.ggml.";
    if (!key.starts_with(kPrefix)) return;
    key.remove_prefix(kPrefix.size());
    if (key == "bos_token_id") f.bos = v;
    if (key == "eos_token_id") f.eos = v;
    if (key == "eot_token_id") f.eot = v;
    if (key == "eom_token_id") f.eom = v;
    if (key == "unknown_token_id") f.unknown = v;
    if (key == "seperator_token_id") f.separator = v;
    if (key == "padding_token_id") f.padding = v;
    if (key == "mask_token_id") f.mask = v;
    if (key == "cls_token_id") f.cls = v;
    if (key == "add_bos_token") f.add_bos = v != 0;
    if (key == "add_eos_token") f.add_eos = v != 0;
    if (key == "add_space_prefix") f.add_space_prefix = v != 0;
    if (key == "remove_extra_whitespaces") f.remove_extra_whitespaces = v != 0;
  }

  std::string_view file_;
  size_t at_ = 0;
  GgufTokenizerFields fields_;
};

}  // namespace brisk
