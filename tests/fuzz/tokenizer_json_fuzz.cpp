#include "fuzz/fuzz.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"

namespace brisk::fuzz {

std::vector<std::string> seeds() {
  return {
      R"({"version": "1.0", "truncation": null, "padding": null,
          "added_tokens": [{"id": 6, "content": "<end>", "single_word": false, "lstrip": true, "rstrip": false,
                            "normalized": false, "special": true}],
          "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"},
                         {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]},
          "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
              {"type": "Split", "pattern": {"Regex": "\\s+|\\p{L}+"}, "behavior": "Isolated", "invert": false},
              {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]},
          "post_processor": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false, "use_regex": true},
          "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
          "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                    "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
                    "vocab": {"l": 0, "o": 1, "w": 2, "lo": 3, "low": 4, "\u0120": 5}, "merges": ["l o", ["lo", "w"]]}})",
      R"({"added_tokens": [], "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
          "strip_accents": null, "lowercase": true}, "pre_tokenizer": {"type": "BertPreTokenizer"},
          "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}},
              {"Sequence": {"id": "A", "type_id": 0}}], "pair": [], "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [1],
              "tokens": ["[CLS]"]}}}, "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
          "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
              "max_input_chars_per_word": 100, "vocab": {"[UNK]": 0, "[CLS]": 1, "low": 2, "##er": 3}}})",
      R"({"added_tokens": [], "normalizer": {"type": "Prepend", "prepend": "\u2581"},
          "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": true},
          "post_processor": null, "decoder": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always"},
          "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": false,
              "vocab": [["<unk>", 0.0], ["\u2581", -2.0], ["low", -3.5], ["l", -4.0]]}})",
  };
}

bool parse(const uint8_t* data, size_t size) {
  auto model = tokenizer_from_json({.tokenizer_json = {reinterpret_cast<const char*>(data), size}});
  if (!model.ok()) return false;
  auto tokenizer = make_tokenizer(std::move(model).value());
  if (!tokenizer.ok()) return false;
  auto ids = (*tokenizer)->encode("low  lower <end> \u00e9\u4f60 12");
  if (ids.ok()) (*tokenizer)->decode(*ids);
  return true;
}

}  // namespace brisk::fuzz
