// The steps around the model in tokenizer.json.
#include <array>

#include "text/tokenizer_json_node.h"

namespace brisk::hf {
namespace {

// A list may hold lists; a stranger's file may hold very many.
constexpr int kMaxDepth = 16;
constexpr size_t kMaxSteps = 256;

Pattern read_pattern(const Node& node) {
  Node regex = node["Regex"], literal = node["String"];
  if (regex.present()) return {regex.text(), true};
  if (!literal.present()) node.fail("a pattern {\"String\": ...} or {\"Regex\": ...} is expected");
  return {literal.text(), false};
}

std::string decode_base64(const Node& node) {
  std::string in = node.text(), out;
  uint32_t bits = 0;
  int count = 0;
  for (char c : in) {
    int v = c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : c >= '0' && c <= '9' ? c - '0' + 52
            : c == '+' ? 62 : c == '/' ? 63 : -1;
    if (c == '=') break;
    if (v < 0) {
      node.fail("not base64");
      break;
    }
    bits = bits << 6 | uint32_t(v);
    count += 6;
    if (count >= 8) {
      count -= 8;
      out += char(bits >> count);
    }
  }
  return out;
}

SplitBehavior read_behavior(const Node& node, SplitBehavior otherwise) {
  if (!node.present()) return otherwise;
  constexpr std::array<std::string_view, 5> kNames = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                                      "Contiguous"};
  std::string name = node.text();
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return SplitBehavior(i);
  }
  node.fail("split behavior '" + name + "' is not one of Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous");
  return otherwise;
}

PrefixScheme read_prefix(const Node& node) {
  Node scheme = node["prepend_scheme"];
  if (!scheme.present()) {
    return node["add_prefix_space"].flag(true) ? PrefixScheme::kAlways : PrefixScheme::kNever;
  }
  std::string name = scheme.text();
  if (name == "always") return PrefixScheme::kAlways;
  if (name == "first") return PrefixScheme::kFirst;
  if (name != "never") scheme.fail("'" + name + "' is not one of always, first, never");
  return PrefixScheme::kNever;
}

void add_normalizer(const Node& node, TokenizerModel& model, int depth) {
  std::string type = node["type"].text();
  if (type == "Sequence") {
    if (depth == kMaxDepth) return node.fail("nested more than " + std::to_string(kMaxDepth) + " deep");
    node["normalizers"].each([&](const Node& n) { add_normalizer(n, model, depth + 1); });
    return;
  }
  if (model.normalizers.size() >= kMaxSteps) return node.fail("more than " + std::to_string(kMaxSteps) + " steps");
  NormalizeStep step;
  if (type == "NFC") {
    step.op = NormalizeOp::kNfc;
  } else if (type == "NFD") {
    step.op = NormalizeOp::kNfd;
  } else if (type == "NFKC") {
    step.op = NormalizeOp::kNfkc;
  } else if (type == "NFKD") {
    step.op = NormalizeOp::kNfkd;
  } else if (type == "Lowercase") {
    step.op = NormalizeOp::kLowercase;
  } else if (type == "StripAccents") {
    step.op = NormalizeOp::kStripAccents;
  } else if (type == "Nmt") {
    step.op = NormalizeOp::kNmt;
  } else if (type == "ByteLevel") {
    step.op = NormalizeOp::kByteLevel;
    model.byte_level = true;
  } else if (type == "Strip") {
    step.op = NormalizeOp::kStrip;
    step.flags = (node["strip_left"].flag(true) ? 1u : 0u) | (node["strip_right"].flag(true) ? 2u : 0u);
  } else if (type == "Prepend") {
    step.op = NormalizeOp::kPrepend;
    step.content = node["prepend"].text();
  } else if (type == "Replace") {
    step.op = NormalizeOp::kReplace;
    step.pattern = read_pattern(node["pattern"]);
    step.content = node["content"].text();
  } else if (type == "Precompiled") {
    step.op = NormalizeOp::kPrecompiled;
    step.content = decode_base64(node["precompiled_charsmap"]);
    step.flags = 1;
  } else if (type == "BertNormalizer") {
    step.op = NormalizeOp::kBert;
    bool lower = node["lowercase"].flag(true);
    step.flags = (node["clean_text"].flag(true) ? 1u : 0u) | (node["handle_chinese_chars"].flag(true) ? 2u : 0u) |
                 (node["strip_accents"].flag(lower) ? 4u : 0u) | (lower ? 8u : 0u);
  } else {
    return node.miss("normalizer '" + type + "'");
  }
  model.normalizers.push_back(std::move(step));
}

void add_pretokenizer(const Node& node, TokenizerModel& model, int depth) {
  std::string type = node["type"].text();
  if (type == "Sequence") {
    if (depth == kMaxDepth) return node.fail("nested more than " + std::to_string(kMaxDepth) + " deep");
    node["pretokenizers"].each([&](const Node& n) { add_pretokenizer(n, model, depth + 1); });
    return;
  }
  if (model.pretokenizers.size() >= kMaxSteps) return node.fail("more than " + std::to_string(kMaxSteps) + " steps");
  PretokenizeStep step;
  if (type == "ByteLevel") {
    step.op = PretokenizeOp::kByteLevel;
    step.flags = (node["add_prefix_space"].flag(true) ? 1u : 0u) | (node["use_regex"].flag(true) ? 2u : 0u);
    model.byte_level = true;
  } else if (type == "Split") {
    step.pattern = read_pattern(node["pattern"]);
    step.behavior = read_behavior(node["behavior"], SplitBehavior::kIsolated);
    step.invert = node["invert"].flag(false);
  } else if (type == "CharDelimiterSplit") {
    step.pattern.text = node["delimiter"].text();
    step.behavior = SplitBehavior::kRemoved;
  } else if (type == "Digits") {
    step.op = PretokenizeOp::kDigits;
    step.flags = node["individual_digits"].flag(false) ? 1u : 0u;
  } else if (type == "Whitespace") {
    step.op = PretokenizeOp::kWhitespace;
  } else if (type == "WhitespaceSplit") {
    step.op = PretokenizeOp::kWhitespaceSplit;
  } else if (type == "Punctuation") {
    step.op = PretokenizeOp::kPunctuation;
    step.behavior = read_behavior(node["behavior"], SplitBehavior::kIsolated);
  } else if (type == "BertPreTokenizer") {
    step.op = PretokenizeOp::kBert;
  } else if (type == "Metaspace") {
    step.op = PretokenizeOp::kMetaspace;
    step.content = node["replacement"].text("\xE2\x96\x81");
    step.prefix = read_prefix(node);
    step.flags = node["split"].flag(true) ? 1u : 0u;
    if (step.content.empty()) node.fail("replacement is empty");
  } else {
    return node.miss("pre-tokenizer '" + type + "'");
  }
  model.pretokenizers.push_back(std::move(step));
}

void add_decoder(const Node& node, TokenizerModel& model, int depth) {
  std::string type = node["type"].text();
  DecodeModel& decode = model.decode;
  if (type == "Sequence") {
    if (depth == kMaxDepth) return node.fail("nested more than " + std::to_string(kMaxDepth) + " deep");
    node["decoders"].each([&](const Node& n) { add_decoder(n, model, depth + 1); });
  } else if (type == "ByteLevel") {
    decode.style = DecodeStyle::kBytes;
  } else if (type == "ByteFallback") {
    decode.byte_tokens = true;
  } else if (type == "Fuse") {
    // Pieces are joined in any case.
  } else if (type == "Replace") {
    Pattern pattern = read_pattern(node["pattern"]);
    if (pattern.regex || node["content"].text() != " ") return node.miss("decoder that replaces by other than a space");
    decode.style = DecodeStyle::kSpaces;
    decode.space = pattern.text;
  } else if (type == "Metaspace") {
    decode.style = DecodeStyle::kSpaces;
    decode.space = node["replacement"].text("\xE2\x96\x81");
    if (read_prefix(node) != PrefixScheme::kNever) decode.strip_start = 1;
  } else if (type == "Strip") {
    if (node["content"].text() != " " || node["stop"].integer(0, 0, INT32_MAX) != 0) {
      return node.miss("decoder that strips other than leading spaces");
    }
    decode.strip_start = uint32_t(node["start"].integer(0, 0, INT32_MAX));
  } else if (type == "WordPiece") {
    decode.style = DecodeStyle::kWordPiece;
    decode.space = node["prefix"].text("##");
    decode.clean_up = node["cleanup"].flag(true);
    decode.strip_start = 1;
  } else if (type == "BPEDecoder") {
    decode.style = DecodeStyle::kSuffix;
    decode.space = node["suffix"].text("</w>");
  } else {
    node.miss("decoder '" + type + "'");
  }
}

int32_t read_id(const Node& node) { return int32_t(node.integer(0, 0, INT32_MAX)); }

void add_template(const Node& node, TokenizerModel& model) {
  Node tokens = node["special_tokens"];
  bool before = true, any = false;
  std::vector<int32_t> prefix, suffix;
  node["single"].each([&](const Node& part) {
    Node special = part["SpecialToken"];
    if (!special.present()) {
      if (!part["Sequence"].present()) return part.fail("SpecialToken or Sequence is expected");
      if (any) return part.miss("a template with its text twice");
      any = true;
      before = false;
      return;
    }
    std::string name = special["id"].text();
    Node token = tokens[name];
    if (!token.present()) return special.fail("'" + name + "' is not in special_tokens");
    token["ids"].each([&](const Node& id) { (before ? prefix : suffix).push_back(read_id(id)); });
  });
  if (!any) return node["single"].fail("no text in the template");
  model.prefix_ids.insert(model.prefix_ids.begin(), prefix.begin(), prefix.end());
  model.suffix_ids.insert(model.suffix_ids.end(), suffix.begin(), suffix.end());
}

void add_postprocessor(const Node& node, TokenizerModel& model, int depth) {
  std::string type = node["type"].text();
  if (type == "Sequence") {
    if (depth == kMaxDepth) return node.fail("nested more than " + std::to_string(kMaxDepth) + " deep");
    node["processors"].each([&](const Node& n) { add_postprocessor(n, model, depth + 1); });
  } else if (type == "TemplateProcessing") {
    add_template(node, model);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    auto id = [&](const char* key) {
      int32_t value = -1;
      size_t i = 0;
      node[key].each([&](const Node& part) {
        if (i++ == 1) value = read_id(part);
      });
      if (value < 0) node[key].fail("[token, id] is expected");
      return value;
    };
    model.prefix_ids.insert(model.prefix_ids.begin(), id("cls"));
    model.suffix_ids.push_back(id("sep"));
  } else if (type != "ByteLevel") {
    node.miss("post-processor '" + type + "'");
  }
}

}  // namespace

void read_normalizer(const Node& node, TokenizerModel& model) {
  if (node.present()) add_normalizer(node, model, 0);
}

void read_pretokenizer(const Node& node, TokenizerModel& model) {
  if (node.present()) add_pretokenizer(node, model, 0);
}

void read_decoder(const Node& node, TokenizerModel& model) {
  if (node.present()) return add_decoder(node, model, 0);
  // Without a decoder pieces are words, unless they are visibly something else.
  model.decode.style = model.byte_level ? DecodeStyle::kBytes : DecodeStyle::kWords;
  model.decode.strip_start = model.byte_level ? 0 : 1;
  for (const auto& step : model.pretokenizers) {
    if (step.op == PretokenizeOp::kMetaspace) model.decode = {DecodeStyle::kSpaces, step.content, false, false, 1};
  }
}

void read_postprocessor(const Node& node, TokenizerModel& model) {
  if (node.present()) add_postprocessor(node, model, 0);
}

}  // namespace brisk::hf
