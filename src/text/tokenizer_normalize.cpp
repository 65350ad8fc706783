#include "text/tokenizer_normalize.h"

#include <cstring>

#include "text/pretokenize.h"
#include "text/tokenizer_charsmap.h"
#include "text/unicode.h"

namespace brisk {
namespace {

// A step may grow a text (a replacement longer than what it replaces); a stranger's steps must not do so without end.
size_t growth_limit(size_t text) { return (size_t{64} << 20) + 32 * text; }

Error grown_too_much() { return invalid("text: grows too much in a normalizer step of the tokenizer"); }

// Rewrites code point by code point: visit(c, source bytes, out).
template <class Visit>
void map_text(std::string& text, Visit visit) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    auto c = unicode::decode(text, i);
    visit(c.value, std::string_view(text).substr(i, c.size), out);
    i += c.size;
  }
  text = std::move(out);
}

void strip(std::string& text, bool left, bool right) {
  size_t begin = 0, end = text.size();
  size_t last = 0;  // end of the last character that is no space
  bool inside = false;
  for (size_t i = 0; i < text.size();) {
    auto c = unicode::decode(text, i);
    i += c.size;
    if (unicode::is(c.value, unicode::kSpace)) {
      if (!inside && left) begin = i;
    } else {
      inside = true;
      last = i;
    }
  }
  if (right) end = last;
  if (end < begin) end = begin;
  text = text.substr(begin, end - begin);
}

Status replace_all(std::string& text, std::string_view what, std::string_view by, size_t limit) {
  if (what.empty()) return {};
  std::string out;
  size_t done = 0;
  for (size_t at; (at = text.find(what, done)) != std::string::npos; done = at + what.size()) {
    out.append(text, done, at - done);
    out += by;
    if (out.size() > limit) return grown_too_much();
  }
  if (done == 0) return {};
  out.append(text, done);
  text = std::move(out);
  return {};
}

Status replace_matches(std::string& text, const SplitRegex& regex, std::string_view by, size_t limit, uint64_t& budget) {
  std::vector<char32_t> points;
  std::vector<uint32_t> at;
  unicode::decode_all(text, points, at);
  std::vector<TextSpan> matches;
  BRISK_TRY(regex.find_all(points, {0, uint32_t(points.size())}, budget, matches));
  std::string out;
  uint32_t done = 0;
  for (TextSpan m : matches) {
    out.append(text, at[done], at[m.begin] - at[done]);
    out += by;
    if (out.size() > limit) return grown_too_much();
    done = m.end;
  }
  out.append(text, at[done]);
  text = std::move(out);
  return {};
}

// What BERT's tokenizer takes for a CJK ideograph (0x2B920 is its own reading of 0x2B820).
bool is_ideograph(char32_t c) {
  constexpr std::pair<char32_t, char32_t> kRanges[] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF},
                                                       {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF},
                                                       {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  if (c < 0x3400) return false;
  for (auto [low, high] : kRanges) {
    if (c >= low && c <= high) return true;
  }
  return false;
}

void bert(std::string& text, uint32_t flags) {
  bool clean = flags & 1, ideographs = flags & 2;
  map_text(text, [&](char32_t c, std::string_view source, std::string& out) {
    if (clean && unicode::is(c, unicode::kControl)) return;
    if (clean && unicode::is(c, unicode::kSpace)) {
      out += ' ';
    } else if (ideographs && is_ideograph(c)) {
      out += ' ';
      out += source;
      out += ' ';
    } else {
      out += source;
    }
  });
  if (flags & 4) {
    text = unicode::normalize(text, unicode::Form::kNfd);
    map_text(text, [](char32_t c, std::string_view source, std::string& out) {
      if (!unicode::is(c, unicode::kNonSpacing)) out += source;
    });
  }
  if (flags & 8) map_text(text, [](char32_t c, std::string_view, std::string& out) { unicode::append_lower(out, c); });
}

void nmt(std::string& text) {
  map_text(text, [](char32_t c, std::string_view source, std::string& out) {
    if ((c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F) return;
    bool space = c == 9 || c == 10 || c == 12 || c == 13 || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
                 c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
    if (space) {
      out += ' ';
    } else {
      out += source;
    }
  });
}

// SentencePiece: flags 1 runs of spaces become one and those at the ends go, 2 the text gets a space in front. Spaces
// become `mark`.
void sentencepiece_spaces(std::string& text, std::string_view mark, uint32_t flags) {
  bool merge = flags & 1, prefix = flags & 2;
  std::string out;
  bool inside = false, prefixed = false;
  for (char c : text) {
    if (c == ' ') {
      inside = false;
      if (!merge) out += mark;
      continue;
    }
    if (!inside && ((prefix && !prefixed) || merge)) {
      out += mark;
      prefixed = true;
    }
    inside = true;
    out += c;
  }
  text = std::move(out);
}

}  // namespace

Result<Normalizer> Normalizer::build(std::span<const NormalizeStep> steps) {
  Normalizer n;
  for (size_t i = 0; i < steps.size(); ++i) {
    Step step;
    step.what = steps[i];
    std::string where = "normalizer step " + std::to_string(i);
    if (step.what.op == NormalizeOp::kReplace && step.what.pattern.regex) {
      auto regex = SplitRegex::compile(step.what.pattern);
      if (!regex.ok()) return std::move(regex).error().in(where);
      step.regex = std::move(regex).value();
    }
    if (step.what.op == NormalizeOp::kPrecompiled) {
      auto checked = check_charsmap(step.what.content);
      if (!checked.ok()) return std::move(checked).error().in(where);
    }
    n.steps_.push_back(std::move(step));
  }
  return n;
}

bool Normalizer::maps_bytes() const {
  for (const Step& s : steps_) {
    if (s.what.op == NormalizeOp::kByteLevel) return true;
  }
  return false;
}

Status Normalizer::apply(const Step& step, std::string& text, size_t limit, uint64_t& budget) {
  const NormalizeStep& what = step.what;
  switch (what.op) {
    case NormalizeOp::kNfc: text = unicode::normalize(text, unicode::Form::kNfc); break;
    case NormalizeOp::kNfd: text = unicode::normalize(text, unicode::Form::kNfd); break;
    case NormalizeOp::kNfkc: text = unicode::normalize(text, unicode::Form::kNfkc); break;
    case NormalizeOp::kNfkd: text = unicode::normalize(text, unicode::Form::kNfkd); break;
    case NormalizeOp::kLowercase:
      map_text(text, [](char32_t c, std::string_view, std::string& out) { unicode::append_lower(out, c); });
      break;
    case NormalizeOp::kStripAccents:
      map_text(text, [](char32_t c, std::string_view source, std::string& out) {
        if (!unicode::is(c, unicode::kAccent)) out += source;
      });
      break;
    case NormalizeOp::kStrip: strip(text, what.flags & 1, what.flags & 2); break;
    case NormalizeOp::kReplace:
      if (step.regex) return replace_matches(text, *step.regex, what.content, limit, budget);
      return replace_all(text, what.pattern.text, what.content, limit);
    case NormalizeOp::kPrepend:
      if (!text.empty()) text.insert(0, what.content);
      break;
    case NormalizeOp::kBert: bert(text, what.flags); break;
    case NormalizeOp::kPrecompiled: text = apply_charsmap(what.content, text, what.flags & 1); break;
    case NormalizeOp::kNmt: nmt(text); break;
    case NormalizeOp::kByteLevel: {
      std::string out;
      for (char c : text) unicode::append(out, byte_to_char(uint8_t(c)));
      text = std::move(out);
      break;
    }
    case NormalizeOp::kSqueezeSpaces: sentencepiece_spaces(text, what.content, what.flags); break;
  }
  return {};
}

Status Normalizer::run(std::string& text, uint64_t& budget) const {
  size_t limit = growth_limit(text.size());
  for (const Step& step : steps_) {
    BRISK_TRY(apply(step, text, limit, budget));
    if (text.size() > limit) return grown_too_much();
  }
  return {};
}

}  // namespace brisk
