#include "text/pretokenize.h"

#include <algorithm>
#include <array>

#include "text/unicode.h"

namespace brisk {
namespace {

constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

bool is_punctuation(char32_t c) { return unicode::is(c, unicode::kPunctuation); }
bool is_space(char32_t c) { return unicode::is(c, unicode::kSpace); }

constexpr bool prints(uint32_t b) { return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174; }

constexpr auto kByteChars = [] {
  std::array<uint16_t, 256> map{};
  uint16_t next = 256;
  for (uint32_t b = 0; b < 256; ++b) map[b] = prints(b) ? uint16_t(b) : next++;
  return map;
}();

constexpr auto kCharBytes = [] {
  std::array<int16_t, 324> map{};
  for (auto& b : map) b = -1;
  for (uint32_t b = 0; b < 256; ++b) map[kByteChars[b]] = int16_t(b);
  return map;
}();

}  // namespace

char32_t byte_to_char(uint8_t byte) { return kByteChars[byte]; }
int char_to_byte(char32_t c) { return c < kCharBytes.size() ? kCharBytes[c] : -1; }

bool chars_to_bytes(std::string_view token, std::string& out) {
  std::string bytes;
  for (size_t i = 0; i < token.size();) {
    auto c = unicode::decode(token, i);
    i += c.size;
    int b = char_to_byte(c.value);
    if (b < 0) return false;
    bytes += char(b);
  }
  out = std::move(bytes);
  return true;
}

// The text between two steps: bytes, code points, and pieces counted in code points.
struct Pretokenizer::Work {
  std::string_view bytes;
  std::string owned;              // holds `bytes` once a step rewrote the text
  std::vector<char32_t> points;
  std::vector<uint32_t> at;       // byte offset of every code point, and the end
  std::vector<TextSpan> pieces;
  std::vector<TextSpan> matches, next;  // scratch

  void read(std::string_view text) {
    bytes = text;
    unicode::decode_all(text, points, at);
    pieces.assign(1, TextSpan{0, uint32_t(points.size())});
    if (points.empty()) pieces.clear();
  }

  std::string_view view(TextSpan s) const { return bytes.substr(at[s.begin], at[s.end] - at[s.begin]); }

  template <class Predicate>
  void match_characters(TextSpan piece, Predicate predicate) {
    matches.clear();
    for (uint32_t i = piece.begin; i < piece.end; ++i) {
      if (predicate(points[i])) matches.push_back({i, i + 1});
    }
  }

  // Splits every piece at what find(piece) left in `matches`.
  template <class Find>
  Status split(SplitBehavior behavior, bool invert, Find find) {
    next.clear();
    for (TextSpan piece : pieces) {
      matches.clear();
      BRISK_TRY(find(piece));
      cut(piece, behavior, invert);
    }
    pieces.swap(next);
    return {};
  }

  // Appends the parts of one piece to `next`.
  void cut(TextSpan piece, SplitBehavior behavior, bool invert) {
    size_t first = next.size();
    bool before = false;  // was the part before a match?
    auto part = [&](TextSpan s, bool match) {
      match ^= invert;
      bool join = false;
      switch (behavior) {
        case SplitBehavior::kRemoved:
          if (match) return;
          break;
        case SplitBehavior::kIsolated: break;
        case SplitBehavior::kContiguous: join = match == before; break;
        case SplitBehavior::kMergedWithPrevious: join = match && !before; break;
        case SplitBehavior::kMergedWithNext: join = before && !match; break;
      }
      before = match;
      if (join && next.size() > first) {
        next.back().end = s.end;
      } else {
        next.push_back(s);
      }
    };
    uint32_t done = piece.begin;
    for (TextSpan m : matches) {
      if (m.begin > done) part({done, m.begin}, false);
      part(m, true);
      done = m.end;
    }
    if (done < piece.end) part({done, piece.end}, false);
    auto empty = [](TextSpan s) { return s.begin == s.end; };
    next.erase(std::remove_if(next.begin() + std::ptrdiff_t(first), next.end(), empty), next.end());
  }

  // Rewrites the text: rewrite(piece, out) appends the bytes of the piece.
  template <class Rewrite>
  void rewrite(Rewrite rewrite) {
    std::string out;
    out.reserve(bytes.size() + bytes.size() / 4);
    std::vector<uint32_t> ends;
    for (TextSpan piece : pieces) {
      rewrite(piece, out);
      ends.push_back(uint32_t(out.size()));
    }
    owned = std::move(out);
    read(owned);
    pieces.clear();
    uint32_t begin = 0;
    size_t i = 0;
    for (uint32_t end : ends) {
      while (at[i] < end) ++i;
      if (i > begin) pieces.push_back({begin, uint32_t(i)});
      begin = uint32_t(i);
    }
  }
};

Result<Pretokenizer> Pretokenizer::build(std::span<const PretokenizeStep> steps, bool byte_level, bool mapped) {
  Pretokenizer p;
  p.unmap_ = mapped && byte_level;
  for (size_t i = 0; i < steps.size(); ++i) {
    Step step;
    step.what = steps[i];
    Pattern pattern = steps[i].pattern;
    bool bytes = steps[i].op == PretokenizeOp::kByteLevel;
    if (bytes && (steps[i].flags & 2)) pattern = {std::string(kGpt2), true};
    if (bytes && i + 1 < steps.size()) step.map_bytes = p.unmap_ = true;
    if (steps[i].op == PretokenizeOp::kSplit || (bytes && (steps[i].flags & 2))) {
      auto regex = SplitRegex::compile(pattern);
      if (!regex.ok()) return std::move(regex).error().in("pre-tokenizer step " + std::to_string(i));
      step.regex = std::move(regex).value();
    }
    p.steps_.push_back(std::move(step));
  }
  return p;
}

Status Pretokenizer::apply(const Step& step, Work& work, bool at_start, uint64_t& budget) const {
  const PretokenizeStep& what = step.what;
  auto find_regex = [&](TextSpan piece) { return step.regex->find_all(work.points, piece, budget, work.matches); };
  auto characters = [&](auto predicate) {
    return [&work, predicate](TextSpan piece) {
      work.match_characters(piece, predicate);
      return Status();
    };
  };
  switch (what.op) {
    case PretokenizeOp::kSplit:
      return work.split(what.behavior, what.invert, find_regex);
    case PretokenizeOp::kDigits:
      return work.split(what.flags & 1 ? SplitBehavior::kIsolated : SplitBehavior::kContiguous, false,
                        characters([](char32_t c) { return unicode::is(c, unicode::kNumeric); }));
    case PretokenizeOp::kPunctuation:
      return work.split(what.behavior, false, characters(is_punctuation));
    case PretokenizeOp::kWhitespaceSplit:
      return work.split(SplitBehavior::kRemoved, false, characters(is_space));
    case PretokenizeOp::kBert:
      BRISK_TRY(work.split(SplitBehavior::kRemoved, false, characters(is_space)));
      return work.split(SplitBehavior::kIsolated, false, characters(is_punctuation));
    case PretokenizeOp::kWhitespace:
      return work.split(SplitBehavior::kRemoved, true, [&](TextSpan piece) {
        auto kind = [&](uint32_t i) {
          uint16_t p = unicode::properties(work.points[i]);
          return p & unicode::kWord ? 1 : p & unicode::kSpace ? 0 : 2;
        };
        for (uint32_t i = piece.begin; i < piece.end;) {
          uint32_t begin = i;
          int k = kind(i);
          while (i < piece.end && kind(i) == k) ++i;
          if (k) work.matches.push_back({begin, i});
        }
        return Status();
      });
    case PretokenizeOp::kMetaspace: {
      work.rewrite([&](TextSpan piece, std::string& out) {
        std::string_view text = work.view(piece);
        bool starts = text[0] == ' ' || text.starts_with(what.content);
        bool wanted = what.prefix == PrefixScheme::kAlways ||
                      (what.prefix == PrefixScheme::kFirst && at_start && piece.begin == 0);
        if (wanted && !starts) out += what.content;
        for (char c : text) {
          if (c == ' ') {
            out += what.content;
          } else {
            out += c;
          }
        }
      });
      if (!(what.flags & 1)) return {};
      char32_t space = unicode::decode(what.content, 0).value;
      return work.split(SplitBehavior::kMergedWithNext, false, characters([space](char32_t c) { return c == space; }));
    }
    case PretokenizeOp::kByteLevel: {
      if (what.flags & 1) {
        work.rewrite([&](TextSpan piece, std::string& out) {
          std::string_view text = work.view(piece);
          if (text[0] != ' ') out += ' ';
          out += text;
        });
      }
      if (step.regex) BRISK_TRY(work.split(SplitBehavior::kIsolated, false, find_regex));
      if (step.map_bytes) {
        work.rewrite([&](TextSpan piece, std::string& out) {
          for (char c : work.view(piece)) unicode::append(out, byte_to_char(uint8_t(c)));
        });
      }
      return {};
    }
  }
  return internal("pre-tokenizer step of unknown kind " + std::to_string(int(what.op)));
}

Status Pretokenizer::run(std::string_view text, bool at_start, uint64_t& budget, PretokenizedText& out) const {
  out.pieces.clear();
  if (steps_.empty() && !unmap_) {
    if (!text.empty()) out.pieces.push_back(text);
    return {};
  }
  Work work;
  work.read(text);
  for (const Step& step : steps_) BRISK_TRY(apply(step, work, at_start, budget));
  out.storage.clear();
  if (!unmap_) {
    bool rewritten = work.bytes.data() == work.owned.data();
    if (rewritten) out.storage = work.owned;
    std::string_view from = rewritten ? std::string_view(out.storage) : text;
    out.pieces.reserve(work.pieces.size());
    for (TextSpan s : work.pieces) {
      out.pieces.push_back(from.substr(work.at[s.begin], work.at[s.end] - work.at[s.begin]));
    }
    return {};
  }
  std::vector<size_t> ends;
  for (TextSpan s : work.pieces) {
    for (uint32_t i = s.begin; i < s.end; ++i) {
      int b = char_to_byte(work.points[i]);
      if (b >= 0) {
        out.storage += char(b);
      } else {
        out.storage += work.view({i, i + 1});
      }
    }
    ends.push_back(out.storage.size());
  }
  size_t begin = 0;
  for (size_t end : ends) {
    out.pieces.push_back(std::string_view(out.storage).substr(begin, end - begin));
    begin = end;
  }
  return {};
}

}  // namespace brisk
