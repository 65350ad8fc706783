#include "text/tokenizer_gguf.h"

#include <algorithm>

#include "base/log.h"
#include "text/pretokenize.h"
#include "text/pretokenize_names.h"
#include "text/tokenizer_vocab.h"

namespace brisk {
namespace {

using Fields = GgufTokenizerFields;
constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581
constexpr std::string_view kKeys = "tokenizer.ggml.";

Error bad(std::string_view key, std::string what) { return invalid(std::string(kKeys) + std::string(key) + ": " + what); }

Status check_lengths(const Fields& f) {
  size_t n = f.tokens.size();
  auto fits = [&](std::string_view key, size_t have) -> Status {
    if (have == 0 || have >= n) return {};
    return bad(key, std::to_string(have) + " entries for " + std::to_string(n) + " tokens");
  };
  if (n == 0) return bad("tokens", "missing or empty");
  BRISK_TRY(fits("scores", f.scores.size()));
  return fits("token_type", f.types.size());
}

// An id out of range counts as absent, as elsewhere in the field; files in the wild have them.
int32_t id_or_none(const Fields& f, const std::optional<int64_t>& id, int32_t fallback = -1) {
  auto in_range = [&](int64_t i) { return i >= 0 && size_t(i) < f.tokens.size(); };
  if (id && in_range(*id)) return int32_t(*id);
  return in_range(fallback) ? fallback : -1;
}

int32_t find(const Fields& f, std::string_view token) {
  auto it = std::find(f.tokens.begin(), f.tokens.end(), token);
  return it == f.tokens.end() ? -1 : int32_t(it - f.tokens.begin());
}

TokenType type_of(const Fields& f, size_t id) {
  int32_t t = id < f.types.size() ? f.types[id] : 1;
  return t >= 1 && t <= 6 ? TokenType(t) : TokenType::kNormal;
}

void fill_tokens(const Fields& f, TokenizerModel& m) {
  size_t n = f.tokens.size();
  m.tokens.reserve(n);
  m.types.reserve(n);
  for (size_t i = 0; i < n; ++i) {
    TokenType type = type_of(f, i);
    std::string text(f.tokens[i]);
    bool spelled = type == TokenType::kControl || type == TokenType::kUserDefined || type == TokenType::kUnknown;
    // What is neither special nor spelled in GPT-2's characters cannot come out of byte-level BPE.
    if (m.byte_level && !spelled && !chars_to_bytes(f.tokens[i], text)) type = TokenType::kUnused;
    m.tokens.push_back(std::move(text));
    m.types.push_back(type);
  }
}

void add_end(TokenizerModel& m, int32_t id) {
  if (id >= 0 && std::find(m.end_ids.begin(), m.end_ids.end(), id) == m.end_ids.end()) m.end_ids.push_back(id);
}

// Which ids end a generation, and which tokens are matched in the text.
void fill_special(const Fields& f, TokenizerModel& m) {
  add_end(m, m.eos);
  add_end(m, id_or_none(f, f.eot));
  add_end(m, id_or_none(f, f.eom));
  bool returns = false, calls = false, flushes = false, gemma = false;
  for (std::string_view t : f.tokens) {
    returns |= t == "<|return|>", calls |= t == "<|call|>" || t == "<|calls|>", flushes |= t == "<|flush|>";
    gemma |= t == "<|tool_response>" || t == "<|plamo:eos|>";
  }
  bool end_is_text = calls && (returns || flushes);  // models whose <|end|> only ends a message
  std::string name = f.general_name;
  for (char& c : name) c = char(c >= 'A' && c <= 'Z' ? c + 32 : c);
  bool phi3 = name.find("phi-3") != name.npos || name.find("phi3") != name.npos;
  for (size_t i = 0; i < f.tokens.size(); ++i) {
    std::string_view t = f.tokens[i];
    TokenType& type = m.types[i];
    bool ends = ends_generation_by_name(t) && !(t == "<|end|>" && end_is_text) && !(t == "</s>" && gemma);
    if (ends) {
      add_end(m, int32_t(i));
      type = TokenType::kControl;
    }
    if (t == "<|channel|>" || t == "<|message|>" || t == "<|start|>" || t == "<|constrain|>" ||
        (t == "<|end|>" && end_is_text)) {
      type = TokenType::kUserDefined;
    }
    if (type != TokenType::kControl && type != TokenType::kUserDefined && type != TokenType::kUnknown) continue;
    AddedToken added;
    added.id = int32_t(i);
    added.content = std::string(t);
    added.special = type != TokenType::kUserDefined;
    added.rstrip = phi3 && t != "<unk>" && t != "<s>" && t != "<|endoftext|>";
    if (t == "<mask>" && m.kind == TokenizerKind::kUnigram) added.lstrip = true;
    if (!added.content.empty() && added.content.size() <= 4096) m.added.push_back(std::move(added));
  }
}

Status fill_merges(const Fields& f, TokenizerModel& m) {
  if (f.merges.empty()) return bad("merges", "missing or empty");
  StringPool pool;
  for (const std::string& t : m.tokens) pool.add(t);
  TokenIndex index;
  index.reset(pool, pool.size());
  for (size_t i = 0; i < pool.size(); ++i) {
    if (m.types[i] == TokenType::kNormal) index.insert(uint32_t(i));
  }
  for (size_t i = 0; i < pool.size(); ++i) index.insert(uint32_t(i));
  m.merges.reserve(f.merges.size());
  std::string left, right;
  size_t dropped = 0;
  for (std::string_view merge : f.merges) {
    size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos) {
      ++dropped;
      continue;
    }
    left = merge.substr(0, space), right = merge.substr(space + 1);
    if (m.byte_level) chars_to_bytes(merge.substr(0, space), left), chars_to_bytes(merge.substr(space + 1), right);
    int32_t a = index.find(left), b = index.find(right), c = index.find(left + right);
    if (a < 0 || b < 0 || c < 0) {
      ++dropped;
      continue;
    }
    m.merges.push_back({uint32_t(a), uint32_t(b), uint32_t(c)});
  }
  if (dropped) {
    log(LogLevel::kWarning, "tokenizer: " + std::to_string(dropped) + " merges of tokens that are not in the vocabulary");
  }
  return {};
}

PretokenizeStep isolate(std::string_view regex) {
  PretokenizeStep step;
  step.pattern = {std::string(regex), true};
  return step;
}

NormalizeStep normalize(NormalizeOp op, std::string_view content = {}, uint32_t flags = 0) {
  NormalizeStep step;
  step.op = op;
  step.content = content;
  step.flags = flags;
  return step;
}

NormalizeStep mark_spaces() {
  NormalizeStep step = normalize(NormalizeOp::kReplace, kSpaceMark);
  step.pattern.text = " ";
  return step;
}

void fill_bpe(const Fields& f, TokenizerModel& m, bool gemma, bool& add_bos) {
  bool known = false;
  const NamedPretokenizer& pre = find_pretokenizer(gemma ? "gemma4" : f.pre, known);
  if (!known) {
    log(LogLevel::kWarning, f.pre.empty() ? std::string("tokenizer.ggml.pre is missing: default splitting of words")
                                          : "tokenizer.ggml.pre '" + f.pre + "' is unknown: default splitting of words");
  }
  m.kind = TokenizerKind::kBpe;
  bool words = pre.names == "whitespace";
  bool marked = pre.names.starts_with("gemma4");
  m.byte_level = !words && !marked;
  m.ignore_merges = pre.ignore_merges;
  add_bos = pre.add_bos || marked;
  for (std::string_view regex : pre.splits) m.pretokenizers.push_back(isolate(regex));
  if (words) {
    m.pretokenizers[0].behavior = SplitBehavior::kRemoved;
    m.pretokenizers[0].invert = true;
    m.decode.style = DecodeStyle::kWords;
  }
  if (marked) {
    m.byte_fallback = true;
    m.normalizers.push_back(mark_spaces());
    m.decode = {DecodeStyle::kSpaces, std::string(kSpaceMark), true, false, 0};
  }
}

void fill_spm(const Fields& f, TokenizerModel& m) {
  bool prefix = f.add_space_prefix.value_or(true);
  m.kind = TokenizerKind::kSpm;
  m.byte_fallback = true;
  if (prefix) m.normalizers.push_back(normalize(NormalizeOp::kPrepend, kSpaceMark));
  m.normalizers.push_back(mark_spaces());
  m.decode = {DecodeStyle::kSpaces, std::string(kSpaceMark), true, false, prefix ? 1u : 0u};
}

void fill_wordpiece(const Fields& f, TokenizerModel& m) {
  bool lower = f.normalizer_lowercase.value_or(true), strip = f.normalizer_strip_accents.value_or(lower);
  m.kind = TokenizerKind::kWordPiece;
  m.word_prefix = kSpaceMark;
  m.normalizers.push_back(normalize(NormalizeOp::kBert, {}, 3u | (strip ? 4u : 0u) | (lower ? 8u : 0u)));
  PretokenizeStep split;
  split.op = PretokenizeOp::kBert;
  m.pretokenizers.push_back(split);
  m.decode = {DecodeStyle::kWordPiece, "", false, true, 1};
}

void fill_unigram(const Fields& f, TokenizerModel& m) {
  bool prefix = f.add_space_prefix.value_or(false), merge = f.remove_extra_whitespaces.value_or(false);
  m.kind = TokenizerKind::kUnigram;
  m.fuse_unknown = true;
  if (!f.precompiled_charsmap.empty()) {
    m.normalizers.push_back(normalize(NormalizeOp::kPrecompiled, f.precompiled_charsmap));
  }
  m.normalizers.push_back(normalize(NormalizeOp::kSqueezeSpaces, kSpaceMark, (merge ? 1u : 0u) | (prefix ? 2u : 0u)));
  m.decode = {DecodeStyle::kSpaces, std::string(kSpaceMark), true, false, prefix || merge ? 1u : 0u};
}

void fill_scores(const Fields& f, TokenizerModel& m) {
  m.scores.assign(f.tokens.size(), 0.0);
  for (size_t i = 0; m.byte_level && i < m.scores.size(); ++i) m.scores[i] = -double(i);
  for (size_t i = 0; !m.byte_level && i < std::min(f.tokens.size(), f.scores.size()); ++i) {
    bool favoured = m.kind == TokenizerKind::kUnigram && m.types[i] == TokenType::kUserDefined;
    m.scores[i] = favoured || f.scores[i] != f.scores[i] ? 0.0 : double(f.scores[i]);
  }
}

}  // namespace

bool ends_generation_by_name(std::string_view token) {
  constexpr std::string_view kNames[] = {
      "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>",
      "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>",
      "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>", "[e~[",
      "<\xEF\xBD\x9C" "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"};
  return std::find(std::begin(kNames), std::end(kNames), token) != std::end(kNames);
}

Result<TokenizerModel> tokenizer_from_gguf(const GgufTokenizerFields& f) {
  BRISK_TRY(check_lengths(f));
  TokenizerModel m;
  bool add_bos = false, add_eos = false;
  int32_t bos = -1, eos = -1, unknown = -1, suffix = -1;
  if (f.model == "gpt2" || f.model == "gemma4") {
    fill_bpe(f, m, f.model == "gemma4", add_bos);
    if (f.model == "gpt2") bos = eos = 11;
  } else if (f.model == "llama") {
    fill_spm(f, m);
    bos = 1, eos = 2, unknown = 0;
    add_bos = true;
  } else if (f.model == "bert") {
    fill_wordpiece(f, m);
    unknown = 100;
    add_bos = true;
  } else if (f.model == "t5") {
    fill_unigram(f, m);
    eos = 1, unknown = 2;
    add_eos = true;
  } else {
    return unsupported(std::string(kKeys) + "model: '" + f.model + "' (supported: gpt2, llama, bert, t5, gemma4)");
  }
  fill_tokens(f, m);
  m.bos = id_or_none(f, f.bos, bos), m.eos = id_or_none(f, f.eos, eos);
  m.unknown = id_or_none(f, f.unknown, unknown), m.pad = id_or_none(f, f.padding);
  if (f.model == "bert") {
    m.bos = id_or_none(f, f.cls, id_or_none(f, f.bos, find(f, "[CLS]")));
    suffix = id_or_none(f, f.separator, find(f, "[SEP]"));
  } else if (f.model == "gpt2" || f.model == "gemma4") {
    // Byte-level models have no unknown token, whatever the file names.
    if (m.byte_level) m.unknown = -1;
    if (f.merges.empty() && f.pre == "kimi-k2") {
      // Such files may leave the merges out: the union with the lowest id merges first.
      m.kind = TokenizerKind::kSpm;
    } else {
      BRISK_TRY(fill_merges(f, m));
    }
  }
  if (m.kind == TokenizerKind::kSpm || m.kind == TokenizerKind::kUnigram) fill_scores(f, m);
  // gemma4 files say add_bos = false by mistake.
  if (f.model == "gemma4" ? true : f.add_bos.value_or(add_bos)) {
    if (m.bos >= 0) m.prefix_ids.push_back(m.bos);
  }
  if (suffix >= 0) m.suffix_ids.push_back(suffix);
  if (f.add_eos.value_or(add_eos) && m.eos >= 0) m.suffix_ids.push_back(m.eos);
  fill_special(f, m);
  m.chat_template = f.chat_template;
  return m;
}

}  // namespace brisk
