// Patterns that the hand-compiled matcher does not take, by PCRE2. Its tables are of an older Unicode version than ours:
// it is shown an older character of the same category instead of one that it does not know.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <time.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "text/pretokenize_regex.h"
#include "text/unicode.h"

namespace brisk {
namespace {

// Steps of one search; a long run of one class may need a few for each byte.
uint32_t match_limit(size_t bytes) { return uint32_t(std::min<size_t>(1'000'000 + 16 * bytes, UINT32_MAX)); }
constexpr uint32_t kHeapLimitKib = 64 << 10;

template <auto Free>
struct Deleter {
  template <class T>
  void operator()(T* p) const {
    Free(p);
  }
};
using Code = std::unique_ptr<pcre2_code, Deleter<pcre2_code_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Deleter<pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Deleter<pcre2_match_context_free>>;
using CompileContext = std::unique_ptr<pcre2_compile_context, Deleter<pcre2_compile_context_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, Deleter<pcre2_jit_stack_free>>;

char32_t stand_in(char32_t c) {
  if (c == 0x180E) return 0x200B;  // no space any more, but PCRE2's \s
  uint16_t p = unicode::properties(c);
  if (!(p & unicode::kNewer)) return c;
  if (p & unicode::kHan) return 0x20000;
  switch (unicode::Category(p & 31)) {
    case unicode::kLu: return 0x10400;
    case unicode::kLl: return 0x10428;
    case unicode::kLm: return 0x1E94B;
    case unicode::kLo: return 0x10C00;
    case unicode::kMn: return 0x1E8D0;
    case unicode::kMc: return 0x11145;
    case unicode::kNd: return 0x1E950;
    case unicode::kNl: return 0x10140;
    case unicode::kNo: return 0x1E8C7;
    case unicode::kPd: return 0x10EAD;
    case unicode::kPo: return 0x1E95E;
    case unicode::kSc: return 0x1E2FF;
    case unicode::kSm: return 0x1EEF0;
    case unicode::kSo: return 0x1F000;
    case unicode::kCf: return 0xE0001;
    default: return c;
  }
}

// PCRE2 does not tell its steps, so the budget is charged by CPU time of this thread: a step for every 8 ns.
class Stopwatch {
 public:
  explicit Stopwatch(uint64_t& budget) : budget_(budget), last_(now()) {}
  ~Stopwatch() { charge(); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  bool goes_on() {
    if (++calls_ % 32 == 0) charge();
    return budget_ > 0;
  }

 private:
  static uint64_t now() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return uint64_t(t.tv_sec) * 1'000'000'000 + uint64_t(t.tv_nsec);
  }
  void charge() {
    uint64_t then = std::exchange(last_, now()), steps = (last_ - then) / 8;
    budget_ = budget_ > steps ? budget_ - steps : 0;
  }
  uint64_t& budget_;
  uint64_t last_;
  uint32_t calls_ = 0;
};

class PcreRegex : public SplitRegex {
 public:
  explicit PcreRegex(Code code, bool jit) : code_(std::move(code)), jit_(jit) {}

  Status find_all(std::span<const char32_t> text, TextSpan span, uint64_t& budget,
                  std::vector<TextSpan>& matches) const override {
    std::string bytes;
    std::vector<uint32_t> at;  // byte offset of every code point, and the end
    at.reserve(span.end - span.begin + 1);
    for (uint32_t i = span.begin; i < span.end; ++i) {
      at.push_back(uint32_t(bytes.size()));
      unicode::append(bytes, stand_in(text[i]));
    }
    at.push_back(uint32_t(bytes.size()));
    MatchData data(pcre2_match_data_create(1, nullptr));
    MatchContext context(pcre2_match_context_create(nullptr));
    JitStack stack(jit_ ? pcre2_jit_stack_create(32 << 10, 1 << 20, nullptr) : nullptr);
    if (!data || !context) return environment("out of memory while splitting text");
    pcre2_set_match_limit(context.get(), match_limit(bytes.size()));
    pcre2_set_heap_limit(context.get(), kHeapLimitKib);
    if (stack) pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
    auto index = [&](size_t byte) {
      return span.begin + uint32_t(std::lower_bound(at.begin(), at.end(), uint32_t(byte)) - at.begin());
    };
    Stopwatch watch(budget);
    size_t start = 0;
    while (start <= bytes.size()) {
      if (!watch.goes_on()) return too_much_work();
      int rc = pcre2_match(code_.get(), PCRE2_SPTR(bytes.data()), bytes.size(), start, PCRE2_NO_UTF_CHECK, data.get(),
                           context.get());
      if (rc == PCRE2_ERROR_JIT_STACKLIMIT) {
        rc = pcre2_match(code_.get(), PCRE2_SPTR(bytes.data()), bytes.size(), start,
                         PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data.get(), context.get());
      }
      if (rc == PCRE2_ERROR_NOMATCH) return {};
      if (rc < 0) return too_much_work();
      const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data.get());
      uint32_t begin = index(ends[0]), end = index(std::max(ends[0], ends[1]));
      matches.push_back({begin, end});
      if (end == begin) ++end;
      start = end <= span.end ? at[end - span.begin] : bytes.size() + 1;
    }
    return {};
  }

 private:
  Code code_;
  bool jit_;
};

// What Ruby's syntax spells differently: \h, \uXXXX, {,n}. Class intersections have no PCRE2 form.
Result<std::string> translate(std::string_view pattern) {
  std::string out;
  int brackets = 0;
  for (size_t i = 0; i < pattern.size(); ++i) {
    char c = pattern[i], next = i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (c == '\\') {
      ++i;
      if (next == 'h') {
        out += brackets ? "0-9a-fA-F" : "[0-9a-fA-F]";
      } else if (next == 'u' && i + 4 < pattern.size()) {
        out += "\\x{" + std::string(pattern.substr(i + 1, 4)) + "}";
        i += 4;
      } else {
        out += c;
        if (next) out += next;
      }
      continue;
    }
    if (brackets && c == '[' && next != ':') return unsupported("nested brackets in a pattern");
    if (brackets && c == '&' && next == '&') return unsupported("'&&' in brackets of a pattern");
    if (c == '[' && !brackets) {
      brackets = 1;
      out += c;
      if (next == '^') out += pattern[++i];
      if (i + 1 < pattern.size() && pattern[i + 1] == ']') {
        out += "\\]";
        ++i;
      }
      continue;
    }
    if (c == '[' && brackets) {  // a posix class
      size_t close = pattern.find(":]", i + 2);
      if (close == std::string_view::npos) return invalid("unclosed [: in a pattern");
      out += pattern.substr(i, close + 2 - i);
      i = close + 1;
      continue;
    }
    if (c == ']') brackets = 0;
    if (c == '{' && !brackets && next == ',') {
      out += "{0";
      continue;
    }
    out += c;
  }
  return out;
}

}  // namespace

Result<std::unique_ptr<const SplitRegex>> compile_pcre_regex(std::string_view pattern) {
  BRISK_ASSIGN(std::string source, translate(pattern));
  CompileContext context(pcre2_compile_context_create(nullptr));
  if (!context) return environment("out of memory while compiling a pattern");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context.get(), 50);
  int error = 0;
  PCRE2_SIZE where = 0;
  uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
  Code code(pcre2_compile(PCRE2_SPTR(source.data()), source.size(), options, &error, &where, context.get()));
  if (!code) {
    unsigned char text[256] = {};
    pcre2_get_error_message(error, text, sizeof text);
    return invalid("pattern '" + std::string(pattern.substr(0, 200)) + "': " + reinterpret_cast<char*>(text) +
                   " at byte " + std::to_string(where));
  }
  bool jit = pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE) == 0;
  return std::unique_ptr<const SplitRegex>(std::make_unique<PcreRegex>(std::move(code), jit));
}

}  // namespace brisk
