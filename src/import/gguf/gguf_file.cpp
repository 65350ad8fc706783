#include "import/gguf/gguf_file.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/checked.h"
#include "import/gguf/blocks.h"

namespace brisk {
namespace {

constexpr int kMaxDepth = 4;           // of arrays in arrays
constexpr uint64_t kMaxName = 1 << 16;  // bytes of a key or tensor name
constexpr uint64_t kMaxAlignment = 1 << 20;
constexpr uint64_t kMaxParts = 1024;

// Bytes of a scalar type; 0 for strings, arrays and unknown numbers.
uint64_t scalar_bytes(GgufType t) {
  switch (t) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kBool: return 1;
    case GgufType::kU16:
    case GgufType::kI16: return 2;
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kF32: return 4;
    case GgufType::kU64:
    case GgufType::kI64:
    case GgufType::kF64: return 8;
    default: return 0;
  }
}

template <class T> T load(std::span<const std::byte> b) {
  T v{};
  if (b.size() >= sizeof v) std::memcpy(&v, b.data(), sizeof v);
  return v;
}

// Walks the header. The first failure sticks; reads after it give zeros and empty views.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class T> T take(const char* field) { return load<T>(take_bytes(sizeof(T), field)); }

  std::span<const std::byte> take_bytes(uint64_t n, const char* field) {
    if (failed_) return {};
    if (n > left()) {
      fail(std::string(field) + " takes " + std::to_string(n) + " bytes, " + std::to_string(left()) + " are left");
      return {};
    }
    auto r = bytes_.subspan(at_, n);
    at_ += n;
    return r;
  }

  std::string_view take_name(const char* field) {
    auto n = take<uint64_t>(field);
    if (!failed_ && (n == 0 || n > kMaxName))
      fail(std::string(field) + " has " + std::to_string(n) + " bytes, allowed are 1 to " + std::to_string(kMaxName));
    auto b = take_bytes(n, field);
    return {reinterpret_cast<const char*>(b.data()), b.size()};
  }

  void fail(std::string what) {
    if (!failed_) error_ = "offset " + std::to_string(at_) + ": " + std::move(what);
    failed_ = true;
  }
  bool failed() const { return failed_; }
  const std::string& error() const { return error_; }
  uint64_t at() const { return at_; }
  uint64_t left() const { return bytes_.size() - at_; }
  std::span<const std::byte> since(uint64_t begin) const { return bytes_.subspan(begin, at_ - begin); }

 private:
  std::span<const std::byte> bytes_;
  uint64_t at_ = 0;
  bool failed_ = false;
  std::string error_;
};

// Moves past the elements of an array, all of them checked.
void skip_elements(Cursor& c, GgufType element, uint64_t count, int depth) {
  if (uint64_t size = scalar_bytes(element)) {
    if (count > c.left() / size)
      return c.fail("an array of " + std::to_string(count) + " elements of " + std::to_string(size) + " bytes, " + std::to_string(c.left()) + " bytes are left");
    c.take_bytes(count * size, "array");
    return;
  }
  uint64_t least = element == GgufType::kString ? 8 : 12;
  if (count > c.left() / least)
    return c.fail("an array of " + std::to_string(count) + " elements, " + std::to_string(c.left()) + " bytes are left");
  for (uint64_t i = 0; i < count && !c.failed(); ++i) {
    if (element == GgufType::kString) {
      c.take_bytes(c.take<uint64_t>("string length"), "string");
      continue;
    }
    if (depth >= kMaxDepth) return c.fail("arrays nested deeper than " + std::to_string(kMaxDepth));
    auto inner = static_cast<GgufType>(c.take<uint32_t>("element type"));
    auto n = c.take<uint64_t>("array length");
    if (inner > GgufType::kF64) return c.fail("element type " + std::to_string(static_cast<uint32_t>(inner)) + ", allowed are 0 to 12");
    skip_elements(c, inner, n, depth + 1);
  }
}

GgufValue take_value(Cursor& c) {
  GgufValue v;
  v.key = c.take_name("metadata key");
  auto type = c.take<uint32_t>("value type");
  if (type > static_cast<uint32_t>(GgufType::kF64)) {
    c.fail("value type " + std::to_string(type) + " of '" + std::string(v.key) + "', allowed are 0 to 12");
    return v;
  }
  v.type = static_cast<GgufType>(type);
  if (v.type == GgufType::kString) {
    v.bytes = c.take_bytes(c.take<uint64_t>("string length"), "string");
  } else if (v.type == GgufType::kArray) {
    auto element = c.take<uint32_t>("element type");
    v.count = c.take<uint64_t>("array length");
    if (element > static_cast<uint32_t>(GgufType::kF64)) {
      c.fail("element type " + std::to_string(element) + " of '" + std::string(v.key) + "', allowed are 0 to 12");
      return v;
    }
    v.element = static_cast<GgufType>(element);
    uint64_t begin = c.at();
    skip_elements(c, v.element, v.count, 1);
    v.bytes = c.since(begin);
  } else {
    v.bytes = c.take_bytes(scalar_bytes(v.type), "value");
  }
  return v;
}

struct RawTensor {
  GgufTensor tensor;
  uint64_t offset = 0;  // from the start of the data
};

RawTensor take_tensor(Cursor& c) {
  RawTensor t;
  t.tensor.name = c.take_name("tensor name");
  auto rank = c.take<uint32_t>("rank");
  if (!c.failed() && (rank < 1 || rank > 4)) c.fail("tensor '" + std::string(t.tensor.name) + "' has rank " + std::to_string(rank) + ", allowed are 1 to 4");
  uint64_t dims[4] = {};
  for (uint32_t i = 0; i < rank && !c.failed(); ++i) {
    dims[i] = c.take<uint64_t>("dimension");
    if (!c.failed() && (dims[i] < 1 || dims[i] > INT64_MAX))
      c.fail("tensor '" + std::string(t.tensor.name) + "' has dimension " + std::to_string(dims[i]) + ", allowed are 1 to " + std::to_string(INT64_MAX));
  }
  if (c.failed()) return t;
  for (uint32_t i = rank; i-- > 0;) t.tensor.shape.push(static_cast<int64_t>(dims[i]));
  t.tensor.type = c.take<uint32_t>("element type");
  t.offset = c.take<uint64_t>("offset");
  return t;
}

// Sets the tensor's bytes, inside `data`; empty if the element type is unknown.
Status place(RawTensor& t, std::span<const std::byte> data, uint64_t alignment) {
  std::string who = "tensor '" + std::string(t.tensor.name) + "'";
  if (t.offset % alignment)
    return invalid(who + ": offset " + std::to_string(t.offset) + " is not a multiple of the alignment " + std::to_string(alignment));
  const BlockFormat* f = block_format(t.tensor.type);
  if (!f) return {};
  auto elements = checked_count(t.tensor.shape);
  int64_t row = t.tensor.shape[t.tensor.shape.rank - 1];
  if (row % f->elements)
    return invalid(who + ": rows of " + std::to_string(row) + " elements are not whole " + f->name + " blocks of " + std::to_string(f->elements));
  auto bytes = elements ? checked_mul(*elements / f->elements, f->bytes) : std::nullopt;
  if (!bytes || !inside(t.offset, static_cast<uint64_t>(*bytes), data.size()))
    return invalid(who + ": " + to_string(t.tensor.shape) + " of type " + f->name + " at offset " + std::to_string(t.offset) +
                   " does not fit into the " + std::to_string(data.size()) + " bytes of tensor data");
  t.tensor.bytes = data.subspan(t.offset, static_cast<uint64_t>(*bytes));
  return {};
}

// Overlapping tensors would let a small file claim many times its size.
Status check_overlaps(std::vector<RawTensor>& tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const RawTensor& a, const RawTensor& b) { return a.offset < b.offset; });
  uint64_t end = 0;
  for (const RawTensor& t : tensors) {
    if (t.tensor.bytes.empty()) continue;
    if (t.offset < end) return invalid("tensor '" + std::string(t.tensor.name) + "' overlaps the one before it at offset " + std::to_string(t.offset));
    end = t.offset + t.tensor.bytes.size();
  }
  return {};
}

template <class T, class Key> const T* find_sorted(const std::vector<T>& v, std::string_view key, Key&& of) {
  auto it = std::lower_bound(v.begin(), v.end(), key, [&](const T& a, std::string_view k) { return of(a) < k; });
  return it != v.end() && of(*it) == key ? &*it : nullptr;
}

// "dir/name-00002-of-00005.gguf" -> "dir/name", if it is of that form with these numbers.
std::optional<std::string> split_prefix(const std::string& path, uint64_t part, uint64_t parts) {
  char suffix[64];
  std::snprintf(suffix, sizeof suffix, "-%05llu-of-%05llu.gguf", static_cast<unsigned long long>(part), static_cast<unsigned long long>(parts));
  if (!path.ends_with(suffix)) return std::nullopt;
  return path.substr(0, path.size() - std::strlen(suffix));
}

std::string split_path(const std::string& prefix, uint64_t part, uint64_t parts) {
  char suffix[64];
  std::snprintf(suffix, sizeof suffix, "-%05llu-of-%05llu.gguf", static_cast<unsigned long long>(part), static_cast<unsigned long long>(parts));
  return prefix + suffix;
}

std::optional<int64_t> as_integer(GgufType t, std::span<const std::byte> b) {
  switch (t) {
    case GgufType::kU8: return load<uint8_t>(b);
    case GgufType::kI8: return load<int8_t>(b);
    case GgufType::kU16: return load<uint16_t>(b);
    case GgufType::kI16: return load<int16_t>(b);
    case GgufType::kU32: return load<uint32_t>(b);
    case GgufType::kI32: return load<int32_t>(b);
    case GgufType::kI64: return load<int64_t>(b);
    case GgufType::kU64: {
      auto v = load<uint64_t>(b);
      return v > static_cast<uint64_t>(INT64_MAX) ? INT64_MAX : static_cast<int64_t>(v);
    }
    default: return std::nullopt;
  }
}

std::optional<double> as_number(GgufType t, std::span<const std::byte> b) {
  if (t == GgufType::kF32) return static_cast<double>(load<float>(b));
  if (t == GgufType::kF64) return load<double>(b);
  if (auto i = as_integer(t, b)) return static_cast<double>(*i);
  return std::nullopt;
}

}  // namespace

Status GgufFile::add_part(std::shared_ptr<MappedFile> file) {
  auto bytes = file->bytes();
  auto at = [&](Error e) { return std::move(e).in(file->path()); };
  Cursor c(bytes);
  auto magic = c.take_bytes(4, "magic");
  if (c.failed() || std::memcmp(magic.data(), "GGUF", 4) != 0) return at(invalid("not a GGUF file: it does not begin with 'GGUF'"));
  auto version = c.take<uint32_t>("version");
  if (!c.failed() && (version & 0xffff) == 0 && version != 0) return at(unsupported("big-endian GGUF"));
  if (!c.failed() && (version < 2 || version > 3)) return at(unsupported("GGUF version " + std::to_string(version) + ", supported are 2 and 3"));
  auto n_tensors = c.take<uint64_t>("tensor count"), n_values = c.take<uint64_t>("metadata count");
  constexpr uint64_t kLeastValue = 8 + 1 + 4 + 1, kLeastTensor = 8 + 1 + 4 + 8 + 4 + 8;
  if (!c.failed() && (n_values > c.left() / kLeastValue || n_tensors > c.left() / kLeastTensor))
    c.fail("counts of " + std::to_string(n_values) + " metadata entries and " + std::to_string(n_tensors) + " tensors, " + std::to_string(c.left()) + " bytes are left");
  std::vector<GgufValue> values;
  std::vector<RawTensor> raw;
  if (!c.failed()) values.reserve(n_values), raw.reserve(n_tensors);  // counts that the file's size allows
  for (uint64_t i = 0; i < n_values && !c.failed(); ++i) values.push_back(take_value(c));
  for (uint64_t i = 0; i < n_tensors && !c.failed(); ++i) raw.push_back(take_tensor(c));
  if (c.failed()) return at(invalid(c.error()));

  std::sort(values.begin(), values.end(), [](const GgufValue& a, const GgufValue& b) { return a.key < b.key; });
  for (size_t i = 1; i < values.size(); ++i)
    if (values[i].key == values[i - 1].key) return at(invalid("metadata key '" + std::string(values[i].key) + "' occurs twice"));
  uint64_t alignment = 32;
  if (const GgufValue* v = find_sorted(values, "general.alignment", [](const GgufValue& a) { return a.key; })) {
    auto a = as_integer(v->type, v->bytes).value_or(0);
    if (a < 1 || static_cast<uint64_t>(a) > kMaxAlignment || (a & (a - 1)))
      return at(invalid("general.alignment is " + std::to_string(a) + ", allowed are powers of two from 1 to " + std::to_string(kMaxAlignment)));
    alignment = static_cast<uint64_t>(a);
  }
  auto data_at = static_cast<uint64_t>(align_up(static_cast<int64_t>(c.at()), static_cast<int64_t>(alignment)));
  auto data = data_at <= bytes.size() ? bytes.subspan(data_at) : std::span<const std::byte>();
  for (RawTensor& t : raw)
    if (auto s = place(t, data, alignment); !s.ok()) return at(std::move(s).error());
  if (auto s = check_overlaps(raw); !s.ok()) return at(std::move(s).error());
  tensors_.reserve(raw.size());
  for (RawTensor& t : raw) {
    t.tensor.file = static_cast<uint32_t>(files_.size());
    tensors_.push_back(t.tensor);
  }
  metadata_ = std::move(values);
  files_.push_back(std::move(file));
  return {};
}

Status GgufFile::finish() {
  std::sort(tensors_.begin(), tensors_.end(), [](const GgufTensor& a, const GgufTensor& b) { return a.name < b.name; });
  for (size_t i = 1; i < tensors_.size(); ++i)
    if (tensors_[i].name == tensors_[i - 1].name) return invalid(path() + ": tensor '" + std::string(tensors_[i].name) + "' occurs twice");
  BRISK_ASSIGN(auto total, integer("split.tensors.count", 0, INT64_MAX));
  if (total && files_.size() > 1 && static_cast<uint64_t>(*total) != tensors_.size())
    return invalid(path() + ": split.tensors.count is " + std::to_string(*total) + ", the parts hold " + std::to_string(tensors_.size()));
  return {};
}

Result<std::shared_ptr<const GgufFile>> GgufFile::open(const std::string& path) {
  auto open_part = [](GgufFile& f, const std::string& name) -> Status {
    BRISK_ASSIGN(auto file, MappedFile::open(name));
    return f.add_part(std::move(file));
  };
  auto first = std::make_shared<GgufFile>();
  BRISK_TRY(open_part(*first, path));
  BRISK_ASSIGN(auto parts, first->integer("split.count", 0, static_cast<int64_t>(kMaxParts)));
  if (parts.value_or(1) <= 1) {
    BRISK_TRY(first->finish());
    return std::shared_ptr<const GgufFile>(std::move(first));
  }
  BRISK_ASSIGN(auto number, first->integer("split.no", 0, *parts - 1));
  auto n = static_cast<uint64_t>(*parts);
  auto prefix = split_prefix(path, static_cast<uint64_t>(number.value_or(0)) + 1, n);
  if (!prefix)
    return invalid(path + ": is part " + std::to_string(number.value_or(0) + 1) + " of " + std::to_string(n) + ", so its name must end in '" +
                   split_path("", static_cast<uint64_t>(number.value_or(0)) + 1, n) + "'");
  auto all = std::make_shared<GgufFile>();
  for (uint64_t i = 1; i <= n; ++i) {
    GgufFile part;
    std::string name = split_path(*prefix, i, n);
    BRISK_TRY(open_part(part, name));
    BRISK_ASSIGN(auto count, part.integer("split.count", static_cast<int64_t>(n), static_cast<int64_t>(n)));
    BRISK_ASSIGN(auto own, part.integer("split.no", static_cast<int64_t>(i - 1), static_cast<int64_t>(i - 1)));
    if (!count || !own) return invalid(name + ": split.count or split.no is missing");
    for (GgufTensor& t : part.tensors_) {
      t.file = static_cast<uint32_t>(i - 1);
      all->tensors_.push_back(t);
    }
    if (i == 1) all->metadata_ = std::move(part.metadata_);
    all->files_.push_back(part.files_[0]);
  }
  BRISK_TRY(all->finish());
  return std::shared_ptr<const GgufFile>(std::move(all));
}

const GgufTensor* GgufFile::tensor(std::string_view name) const {
  return find_sorted(tensors_, name, [](const GgufTensor& t) { return t.name; });
}

const GgufValue* GgufFile::find(std::string_view key) const {
  return find_sorted(metadata_, key, [](const GgufValue& v) { return v.key; });
}

Error GgufFile::wrong(std::string_view key, const std::string& what) const {
  return invalid(path() + ": metadata '" + std::string(key) + "' " + what);
}

Result<std::optional<int64_t>> GgufFile::integer(std::string_view key, int64_t min, int64_t max) const {
  const GgufValue* v = find(key);
  if (!v) return std::optional<int64_t>();
  auto i = as_integer(v->type, v->bytes);
  if (!i) return wrong(key, "must be an integer");
  if (*i < min || *i > max) return wrong(key, "is " + std::to_string(*i) + ", allowed are " + std::to_string(min) + " to " + std::to_string(max));
  return i;
}

Result<std::optional<double>> GgufFile::number(std::string_view key) const {
  const GgufValue* v = find(key);
  if (!v) return std::optional<double>();
  auto n = as_number(v->type, v->bytes);
  if (!n) return wrong(key, "must be a number");
  return n;
}

Result<std::optional<bool>> GgufFile::flag(std::string_view key) const {
  const GgufValue* v = find(key);
  if (!v) return std::optional<bool>();
  if (v->type != GgufType::kBool) return wrong(key, "must be true or false");
  return std::optional<bool>(load<uint8_t>(v->bytes) != 0);
}

Result<std::optional<std::string_view>> GgufFile::text(std::string_view key) const {
  const GgufValue* v = find(key);
  if (!v) return std::optional<std::string_view>();
  if (v->type != GgufType::kString) return wrong(key, "must be a string");
  return std::optional<std::string_view>(std::string_view(reinterpret_cast<const char*>(v->bytes.data()), v->bytes.size()));
}

Result<std::optional<std::vector<std::string_view>>> GgufFile::texts(std::string_view key) const {
  const GgufValue* v = find(key);
  if (!v) return std::optional<std::vector<std::string_view>>();
  if (v->type != GgufType::kArray || v->element != GgufType::kString) return wrong(key, "must be an array of strings");
  std::vector<std::string_view> out(v->count);
  Cursor c(v->bytes);  // lengths were checked when the file was opened
  for (auto& s : out) {
    auto b = c.take_bytes(c.take<uint64_t>("string length"), "string");
    s = {reinterpret_cast<const char*>(b.data()), b.size()};
  }
  return std::optional(std::move(out));
}

Result<std::optional<std::vector<double>>> GgufFile::numbers(std::string_view key) const {
  const GgufValue* v = find(key);
  if (!v) return std::optional<std::vector<double>>();
  uint64_t size = scalar_bytes(v->element);
  if (v->type != GgufType::kArray || size == 0 || v->element == GgufType::kBool) return wrong(key, "must be an array of numbers");
  std::vector<double> out(v->count);
  for (size_t i = 0; i < out.size(); ++i) out[i] = as_number(v->element, v->bytes.subspan(i * size, size)).value_or(0);
  return std::optional(std::move(out));
}

}  // namespace brisk
