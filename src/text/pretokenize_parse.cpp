#include "text/pretokenize_parse.h"

#include <string>
#include <string_view>

namespace brisk {
namespace {

using unicode::Flag;

constexpr uint32_t bits(std::initializer_list<unicode::Category> list) {
  uint32_t mask = 0;
  for (auto c : list) mask |= 1u << c;
  return mask;
}

// \p{NAME}: a general category by its short or long name.
struct NamedCategories {
  std::string_view name;
  uint32_t mask;
};

constexpr NamedCategories kNames[] = {
    {"L", bits({unicode::kLu, unicode::kLl, unicode::kLt, unicode::kLm, unicode::kLo})},
    {"Letter", bits({unicode::kLu, unicode::kLl, unicode::kLt, unicode::kLm, unicode::kLo})},
    {"Lu", bits({unicode::kLu})},
    {"Ll", bits({unicode::kLl})},
    {"Lt", bits({unicode::kLt})},
    {"Lm", bits({unicode::kLm})},
    {"Lo", bits({unicode::kLo})},
    {"M", bits({unicode::kMn, unicode::kMc, unicode::kMe})},
    {"Mark", bits({unicode::kMn, unicode::kMc, unicode::kMe})},
    {"Mn", bits({unicode::kMn})},
    {"Mc", bits({unicode::kMc})},
    {"Me", bits({unicode::kMe})},
    {"N", bits({unicode::kNd, unicode::kNl, unicode::kNo})},
    {"Number", bits({unicode::kNd, unicode::kNl, unicode::kNo})},
    {"Nd", bits({unicode::kNd})},
    {"Nl", bits({unicode::kNl})},
    {"No", bits({unicode::kNo})},
    {"P", bits({unicode::kPc, unicode::kPd, unicode::kPs, unicode::kPe, unicode::kPi, unicode::kPf, unicode::kPo})},
    {"Punctuation",
     bits({unicode::kPc, unicode::kPd, unicode::kPs, unicode::kPe, unicode::kPi, unicode::kPf, unicode::kPo})},
    {"Pc", bits({unicode::kPc})},
    {"Pd", bits({unicode::kPd})},
    {"Ps", bits({unicode::kPs})},
    {"Pe", bits({unicode::kPe})},
    {"Pi", bits({unicode::kPi})},
    {"Pf", bits({unicode::kPf})},
    {"Po", bits({unicode::kPo})},
    {"S", bits({unicode::kSm, unicode::kSc, unicode::kSk, unicode::kSo})},
    {"Symbol", bits({unicode::kSm, unicode::kSc, unicode::kSk, unicode::kSo})},
    {"Sm", bits({unicode::kSm})},
    {"Sc", bits({unicode::kSc})},
    {"Sk", bits({unicode::kSk})},
    {"So", bits({unicode::kSo})},
    {"Z", bits({unicode::kZs, unicode::kZl, unicode::kZp})},
    {"Separator", bits({unicode::kZs, unicode::kZl, unicode::kZp})},
    {"Zs", bits({unicode::kZs})},
    {"Zl", bits({unicode::kZl})},
    {"Zp", bits({unicode::kZp})},
    {"C", bits({unicode::kCc, unicode::kCf, unicode::kCo, unicode::kCs, unicode::kCn})},
    {"Other", bits({unicode::kCc, unicode::kCf, unicode::kCo, unicode::kCs, unicode::kCn})},
    {"Cc", bits({unicode::kCc})},
    {"Cf", bits({unicode::kCf})},
    {"Co", bits({unicode::kCo})},
    {"Cn", bits({unicode::kCn})},
};

// Recursive descent; `failed_` once set means "not this kind" and everything returns at once.
class Parser {
 public:
  explicit Parser(std::string_view source) : source_(source) {}

  std::optional<std::vector<RegexSequence>> parse() {
    auto alternatives = parse_alternatives(0);
    if (at_ < source_.size()) failed_ = true;
    if (failed_) return std::nullopt;
    return alternatives;
  }

 private:
  static constexpr int kMaxDepth = 20;

  bool more() const { return !failed_ && at_ < source_.size(); }
  char peek(size_t ahead = 0) const { return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0'; }
  bool take(std::string_view word) {
    if (failed_ || source_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  char32_t take_code_point() {
    auto c = unicode::decode(source_, at_);
    at_ += c.size;
    return c.value;
  }

  std::vector<RegexSequence> parse_alternatives(int depth) {
    std::vector<RegexSequence> all(1);
    if (depth > kMaxDepth) failed_ = true;
    bool outer_case = ignore_case_;
    while (more() && peek() != ')') {
      if (take("|")) {
        all.emplace_back();
        continue;
      }
      if (take("(?i)")) {
        ignore_case_ = true;
        continue;
      }
      all.back().push_back(parse_item(depth));
    }
    ignore_case_ = outer_case;
    return all;
  }

  RegexItem parse_item(int depth) {
    RegexItem item;
    if (take("(")) {
      parse_group(item, depth);
    } else if (take("^")) {
      item.kind = RegexItem::kLineBegin;
    } else if (take("$")) {
      item.kind = RegexItem::kLineEnd;
    } else if (take("\\A")) {
      item.kind = RegexItem::kTextBegin;
    } else if (take("\\z")) {
      item.kind = RegexItem::kTextEnd;
    } else if (take("\\b")) {
      item.kind = RegexItem::kWordEdge;
    } else if (take("\\B")) {
      item.kind = RegexItem::kNoWordEdge;
    } else {
      parse_single(item.set);
      item.set.seal();
    }
    parse_quantifier(item);
    return item;
  }

  void parse_group(RegexItem& item, int depth) {
    bool outer_case = ignore_case_;
    item.kind = RegexItem::kGroup;
    if (take("?:")) {
    } else if (take("?i:")) {
      ignore_case_ = true;
    } else if (take("?=")) {
      item.kind = RegexItem::kLook;
    } else if (take("?!")) {
      item.kind = RegexItem::kLook;
      item.negative = true;
    } else if (peek() == '?') {
      failed_ = true;
      return;
    }
    item.alternatives = parse_alternatives(depth + 1);
    ignore_case_ = outer_case;
    if (!take(")")) failed_ = true;
  }

  uint32_t take_number() {
    uint32_t n = 0;
    while (more() && peek() >= '0' && peek() <= '9' && n < 100000) n = n * 10 + uint32_t(source_[at_++] - '0');
    if (n >= 100000) failed_ = true;
    return n;
  }

  void parse_quantifier(RegexItem& item) {
    bool braces = false;
    if (take("*")) {
      item.min = 0, item.max = kNoLimit;
    } else if (take("+")) {
      item.min = 1, item.max = kNoLimit;
    } else if (take("?")) {
      item.min = 0, item.max = 1;
    } else if (peek() == '{') {
      ++at_;
      braces = true;
      bool no_low = peek() == ',';
      item.min = item.max = take_number();
      if (take(",")) item.max = peek() == '}' ? (no_low ? (failed_ = true, 0) : kNoLimit) : take_number();
      if (!take("}") || item.max < item.min) failed_ = true;
    } else {
      return;
    }
    char next = peek();
    if (braces ? next == '?' || next == '+' : false) failed_ = true;  // Ruby reads these as nested quantifiers
    if (!braces && take("?")) item.mode = RegexMode::kLazy;
    if (!braces && take("+")) item.mode = RegexMode::kPossessive;
    next = peek();
    if (next == '*' || next == '+' || next == '?' || next == '{') failed_ = true;
    bool once = item.min == 0 && item.max == 1 && item.mode != RegexMode::kPossessive;
    if (item.kind == RegexItem::kGroup && !once && !(item.min == 1 && item.max == 1)) failed_ = true;
    if (item.kind > RegexItem::kGroup) failed_ = true;
  }

  // One character, escape or bracket expression outside brackets.
  void parse_single(CharSet& set) {
    char c = peek();
    if (c == '[') {
      ++at_;
      parse_brackets(set, 0);
    } else if (c == '.') {
      ++at_;
      set.negated = true;
      set.add('\n', '\n');
    } else if (c == '\\') {
      if (!parse_class_escape(set, false)) add_literal(set, parse_char_escape());
    } else if (c == '*' || c == '+' || c == '?' || c == '{' || c == '\0') {
      failed_ = true;
    } else {
      add_literal(set, take_code_point());
    }
  }

  void add_literal(CharSet& set, char32_t c) { add_range(set, c, c); }

  void add_range(CharSet& set, char32_t low, char32_t high) {
    set.add(low, high);
    if (!ignore_case_) return;
    if (high >= 128) failed_ = true;
    for (char32_t c = low; c <= high && c < 128; ++c) {
      char32_t lower = c | 32;
      if (lower < 'a' || lower > 'z') continue;
      set.add(c ^ 32, c ^ 32);
      if (lower == 's') set.add(0x17F, 0x17F);    // long s
      if (lower == 'k') set.add(0x212A, 0x212A);  // Kelvin sign
    }
  }

  // \s \d \w \h \p{..} and their opposites; false: it is a character. In brackets \w is without the superscripts and
  // fractions of Latin-1, which it has alone: so Oniguruma.
  bool parse_class_escape(CharSet& set, bool in_brackets) {
    char kind = peek(1);
    CharSet one;
    if (kind == 's' || kind == 'S') {
      one.flags = Flag::kSpace;
    } else if (kind == 'd' || kind == 'D') {
      one.categories = bits({unicode::kNd});
    } else if (kind == 'w' || kind == 'W') {
      one.flags = Flag::kRegexWord;
      if (in_brackets) {
        CharSet cut;
        cut.negated = true;
        cut.add(0xB2, 0xB3), cut.add(0xB9, 0xB9), cut.add(0xBC, 0xBE);
        one.all.push_back(std::move(cut));
      }
    } else if (kind == 'h' || kind == 'H') {
      one.add('0', '9'), one.add('a', 'f'), one.add('A', 'F');
    } else if (kind == 'p' || kind == 'P') {
      at_ += 2;
      if (!parse_property(one)) failed_ = true;
      one.negated ^= kind == 'P';
      set.any.push_back(std::move(one));
      return true;
    } else {
      return false;
    }
    at_ += 2;
    one.negated = kind < 'a';
    set.any.push_back(std::move(one));
    return true;
  }

  bool parse_property(CharSet& set) {
    std::string_view name;
    if (take("{")) {
      size_t close = source_.find('}', at_);
      if (close == std::string_view::npos) return false;
      name = source_.substr(at_, close - at_);
      at_ = close + 1;
    } else {
      name = source_.substr(at_, 1);
      at_ += name.size();
    }
    if (!name.empty() && name[0] == '^') {
      set.negated = true;
      name.remove_prefix(1);
    }
    if (name == "Han") {
      set.flags = Flag::kHan;
      return true;
    }
    for (const auto& known : kNames) {
      if (known.name == name) {
        set.categories = known.mask;
        return true;
      }
    }
    return false;
  }

  char32_t take_hex(size_t most) {
    char32_t value = 0;
    size_t n = 0;
    for (; n < most && more(); ++n, ++at_) {
      char c = peek();
      if (c >= '0' && c <= '9') value = value * 16 + char32_t(c - '0');
      else if ((c | 32) >= 'a' && (c | 32) <= 'f') value = value * 16 + char32_t((c | 32) - 'a' + 10);
      else break;
    }
    if (n == 0 || value > 0x10FFFF) failed_ = true;
    return value;
  }

  char32_t parse_char_escape() {
    ++at_;
    if (!more()) {
      failed_ = true;
      return 0;
    }
    if (take("x{")) {
      char32_t value = take_hex(8);
      if (!take("}")) failed_ = true;
      return value;
    }
    if (take("x")) return take_hex(2);
    if (take("u")) return take_hex(4);
    char c = peek();
    constexpr std::string_view kLetters = "nrtfvae", kValues = "\n\r\t\f\v\a\x1b";
    if (size_t i = kLetters.find(c); i != std::string_view::npos) {
      ++at_;
      return char32_t(kValues[i]);
    }
    if ((c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z')) failed_ = true;
    return take_code_point();
  }

  // After the "[" up to the "]". A member is a character, a range, an escape, a posix class or nested brackets.
  void parse_brackets(CharSet& set, int depth) {
    if (depth > 4) failed_ = true;
    bool negated = take("^");
    bool first = true;
    while (more()) {
      if (peek() == ']' && !first) break;
      first = false;
      if (take("&&")) {
        // What follows up to the "]" cuts what was read.
        CharSet rest;
        parse_members(rest, depth);
        set.all.push_back(std::move(rest));
        break;
      }
      parse_member(set, depth);
    }
    if (!take("]")) failed_ = true;
    set.negated ^= negated;
  }

  void parse_members(CharSet& set, int depth) {
    while (more() && peek() != ']') {
      if (peek() == '&' && peek(1) == '&') failed_ = true;
      parse_member(set, depth);
    }
  }

  void parse_member(CharSet& set, int depth) {
    if (peek() == '[') {
      if (peek(1) == ':') {
        parse_posix(set);
        return;
      }
      ++at_;
      CharSet inner;
      parse_brackets(inner, depth + 1);
      set.any.push_back(std::move(inner));
      return;
    }
    if (peek() == '\\' && parse_class_escape(set, true)) return;
    char32_t low = peek() == '\\' ? parse_char_escape() : take_code_point();
    if (peek() == '-' && peek(1) != ']' && peek(1) != '\0') {
      if (peek(1) == '[' || (peek(1) == '&' && peek(2) == '&')) {
        failed_ = true;
        return;
      }
      ++at_;
      if (peek() == '\\' && std::string_view("sSdDwWhHpP").find(peek(1)) != std::string_view::npos) {
        failed_ = true;
        return;
      }
      char32_t high = peek() == '\\' ? parse_char_escape() : take_code_point();
      if (high < low) failed_ = true;
      add_range(set, low, high);
      return;
    }
    add_literal(set, low);
  }

  void parse_posix(CharSet& set) {
    CharSet one;
    if (take("[:punct:]")) {
      one.categories = kNames[17].mask | kNames[26].mask;
      static_assert(kNames[17].name == "P" && kNames[26].name == "S");
    } else if (take("[:space:]")) {
      one.flags = Flag::kSpace;
    } else if (take("[:digit:]")) {
      one.categories = bits({unicode::kNd});
    } else {
      failed_ = true;
    }
    set.any.push_back(std::move(one));
  }

  std::string_view source_;
  size_t at_ = 0;
  bool failed_ = false, ignore_case_ = false;
};

}  // namespace

std::optional<std::vector<RegexSequence>> parse_class_regex(const Pattern& pattern) {
  if (pattern.regex) return Parser(pattern.text).parse();
  RegexSequence literal;
  for (size_t i = 0; i < pattern.text.size();) {
    auto c = unicode::decode(pattern.text, i);
    i += c.size;
    RegexItem item;
    item.set.add(c.value, c.value);
    item.set.seal();
    literal.push_back(std::move(item));
  }
  return std::vector<RegexSequence>{std::move(literal)};
}

}  // namespace brisk
