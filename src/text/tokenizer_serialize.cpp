// A Tokenizer as bytes: "BTOK", a format number, then the first half of Tokenizer::State field by field, little endian,
// strings and arrays with their length in front. A reader rebuilds the second half, which is quick.
#include <bit>
#include <cstring>

#include "base/checked.h"
#include "text/tokenizer_state.h"

namespace brisk {
namespace {

static_assert(std::endian::native == std::endian::little, "arrays are stored as they lie in memory");
constexpr uint32_t kMagic = 0x4B4F5442, kFormat = 2;

class Writer {
 public:
  template <class T>
  void number(T value) {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(std::string_view s) {
    number(uint32_t(s.size()));
    out += s;
  }
  template <class T>
  void array(const std::vector<T>& v) {
    number(uint32_t(v.size()));
    out.append(reinterpret_cast<const char*>(v.data()), v.size() * sizeof(T));
  }
  std::string out;
};

// After the first fault everything reads as zero or empty; failed() tells.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class T>
  T number() {
    T value{};
    if (take(sizeof value)) std::memcpy(&value, bytes_.data() + at_ - sizeof value, sizeof value);
    return value;
  }
  // An enum or flag byte of at most `last`.
  template <class T>
  T choice(T last) {
    auto value = number<uint8_t>();
    if (value > uint8_t(last)) failed_ = true;
    return failed_ ? T{} : T(value);
  }
  bool flag() { return choice<uint8_t>(1) != 0; }
  std::string text() {
    size_t n = number<uint32_t>();
    if (!take(n)) return {};
    return {reinterpret_cast<const char*>(bytes_.data()) + at_ - n, n};
  }
  template <class T>
  std::vector<T> array() {
    size_t n = number<uint32_t>(), size = n * sizeof(T);
    if (!take(size)) return {};
    std::vector<T> v(n);
    if (n) std::memcpy(v.data(), bytes_.data() + at_ - size, size);
    return v;
  }
  // The length of a list whose items have at least `least` bytes each.
  size_t count(size_t least) {
    size_t n = number<uint32_t>();
    if (!inside(at_, n * least, bytes_.size())) failed_ = true;
    return failed_ ? 0 : n;
  }
  bool failed() const { return failed_; }
  bool at_end() const { return at_ == bytes_.size(); }

 private:
  bool take(size_t n) {
    if (failed_ || !inside(at_, n, bytes_.size())) {
      failed_ = true;
      return false;
    }
    at_ += n;
    return true;
  }
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
  bool failed_ = false;
};

void write_config(Writer& w, const TokenizerConfig& c) {
  w.number(c.kind);
  for (bool b : {c.byte_level, c.byte_fallback, c.ignore_merges, c.fuse_unknown, c.whole_vocabulary}) w.number(uint8_t(b));
  w.text(c.subword_prefix), w.text(c.word_suffix), w.text(c.word_prefix);
  w.number(c.max_word_chars);
  w.number(uint32_t(c.normalizers.size()));
  for (const auto& s : c.normalizers) {
    w.number(s.op);
    w.text(s.pattern.text), w.number(uint8_t(s.pattern.regex)), w.text(s.content), w.number(s.flags);
  }
  w.number(uint32_t(c.pretokenizers.size()));
  for (const auto& s : c.pretokenizers) {
    w.number(s.op);
    w.text(s.pattern.text), w.number(uint8_t(s.pattern.regex));
    w.number(s.behavior), w.number(uint8_t(s.invert)), w.text(s.content), w.number(s.prefix), w.number(s.flags);
  }
  w.number(c.decode.style), w.text(c.decode.space), w.number(uint8_t(c.decode.byte_tokens));
  w.number(uint8_t(c.decode.clean_up)), w.number(c.decode.strip_start);
  w.number(uint32_t(c.added.size()));
  for (const auto& t : c.added) {
    w.number(t.id), w.text(t.content);
    w.number(uint8_t(t.lstrip | t.rstrip << 1 | t.single_word << 2 | t.normalized << 3 | t.special << 4 |
                     t.in_model << 5));
  }
  w.array(c.prefix_ids), w.array(c.suffix_ids);
  for (int32_t id : {c.bos, c.eos, c.unknown, c.pad}) w.number(id);
  w.array(c.end_ids);
  w.text(c.chat_template);
}

TokenizerConfig read_config(Reader& r) {
  TokenizerConfig c;
  c.kind = r.choice(TokenizerKind::kUnigram);
  for (bool* b : {&c.byte_level, &c.byte_fallback, &c.ignore_merges, &c.fuse_unknown, &c.whole_vocabulary}) *b = r.flag();
  c.subword_prefix = r.text(), c.word_suffix = r.text(), c.word_prefix = r.text();
  c.max_word_chars = r.number<uint32_t>();
  for (size_t n = r.count(14); n-- > 0 && !r.failed();) {
    auto& s = c.normalizers.emplace_back();
    s.op = r.choice(NormalizeOp::kSqueezeSpaces);
    s.pattern.text = r.text(), s.pattern.regex = r.flag(), s.content = r.text(), s.flags = r.number<uint32_t>();
  }
  for (size_t n = r.count(17); n-- > 0 && !r.failed();) {
    auto& s = c.pretokenizers.emplace_back();
    s.op = r.choice(PretokenizeOp::kBert);
    s.pattern.text = r.text(), s.pattern.regex = r.flag();
    s.behavior = r.choice(SplitBehavior::kContiguous), s.invert = r.flag(), s.content = r.text();
    s.prefix = r.choice(PrefixScheme::kNever), s.flags = r.number<uint32_t>();
  }
  c.decode.style = r.choice(DecodeStyle::kWords);
  c.decode.space = r.text(), c.decode.byte_tokens = r.flag(), c.decode.clean_up = r.flag();
  c.decode.strip_start = r.number<uint32_t>();
  for (size_t n = r.count(9); n-- > 0 && !r.failed();) {
    auto& t = c.added.emplace_back();
    t.id = r.number<int32_t>(), t.content = r.text();
    uint8_t flags = r.choice<uint8_t>(63);
    t.lstrip = flags & 1, t.rstrip = flags & 2, t.single_word = flags & 4, t.normalized = flags & 8;
    t.special = flags & 16, t.in_model = flags & 32;
  }
  c.prefix_ids = r.array<int32_t>(), c.suffix_ids = r.array<int32_t>();
  for (int32_t* id : {&c.bos, &c.eos, &c.unknown, &c.pad}) *id = r.number<int32_t>();
  c.end_ids = r.array<int32_t>();
  c.chat_template = r.text();
  return c;
}

bool well_formed(const StringPool& pool) {
  if (pool.offsets.empty() || pool.offsets[0] != 0 || pool.offsets.back() != pool.bytes.size()) return false;
  for (size_t i = 0; i + 1 < pool.offsets.size(); ++i) {
    if (pool.offsets[i] > pool.offsets[i + 1]) return false;
  }
  return true;
}

}  // namespace

std::string Tokenizer::serialize() const {
  const State& s = *state_;
  Writer w;
  w.out.reserve(s.pieces.bytes.size() + s.pieces.size() * 8 + s.merges.size() * sizeof(Merge) + 4096);
  w.number(kMagic), w.number(kFormat);
  write_config(w, s.config);
  w.text(s.pieces.bytes), w.array(s.pieces.offsets);
  w.array(s.types), w.array(s.scores), w.array(s.merges), w.array(s.direct), w.array(s.by_text);
  return std::move(w.out);
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::deserialize(std::span<const std::byte> bytes) {
  Reader r(bytes);
  if (r.number<uint32_t>() != kMagic) return invalid("tokenizer: not a serialized tokenizer");
  if (uint32_t format = r.number<uint32_t>(); format != kFormat) {
    return invalid("tokenizer: format " + std::to_string(format) + ", this build reads " + std::to_string(kFormat));
  }
  auto state = std::make_unique<State>();
  state->config = read_config(r);
  state->pieces.bytes = r.text(), state->pieces.offsets = r.array<uint32_t>();
  state->types = r.array<uint8_t>(), state->scores = r.array<double>(), state->merges = r.array<Merge>();
  state->direct = r.array<uint64_t>(), state->by_text = r.array<uint32_t>();
  if (r.failed() || !r.at_end() || !well_formed(state->pieces)) {
    return invalid("tokenizer: damaged: a length or value in its " + std::to_string(bytes.size()) +
                   " bytes is out of range");
  }
  BRISK_TRY(state->check());
  BRISK_TRY(state->finish());
  return State::publish(std::move(state));
}

}  // namespace brisk
