#include "tensor/npy.h"

#include <cctype>
#include <charconv>

#include "base/checked.h"
#include "base/file.h"
#include "tensor/zip.h"

namespace brisk {
namespace {

struct Descr {
  const char* text;
  DType dtype;
};
constexpr Descr kDescrs[] = {
    {"f4", DType::kF32}, {"f8", DType::kF64}, {"f2", DType::kF16}, {"i1", DType::kI8},  {"i2", DType::kI16}, {"i4", DType::kI32},
    {"i8", DType::kI64}, {"u1", DType::kU8},  {"u2", DType::kU16}, {"u4", DType::kU32}, {"u8", DType::kU64}, {"b1", DType::kBool},
};

// The value of 'key' in the header's dictionary text, from behind its colon to the end.
std::optional<std::string_view> member(std::string_view header, std::string_view key) {
  for (char quote : {'\'', '"'}) {
    std::string needle = quote + std::string(key) + quote;
    size_t at = header.find(needle);
    if (at == std::string_view::npos) continue;
    at = header.find(':', at + needle.size());
    if (at == std::string_view::npos) return std::nullopt;
    ++at;
    while (at < header.size() && std::isspace(static_cast<unsigned char>(header[at]))) ++at;
    return header.substr(at);
  }
  return std::nullopt;
}

Result<DType> parse_descr(std::string_view value) {
  if (value.size() < 2 || (value[0] != '\'' && value[0] != '"')) return unsupported(".npy: arrays of records are not read");
  size_t end = value.find(value[0], 1);
  if (end == std::string_view::npos) return invalid(".npy: 'descr' has no end");
  std::string_view descr = value.substr(1, end - 1);
  if (descr.size() >= 2 && (descr[0] == '<' || descr[0] == '|' || descr[0] == '='))
    for (const Descr& d : kDescrs)
      if (descr.substr(1) == d.text) return d.dtype;
  return unsupported(".npy: elements of type '" + std::string(descr.substr(0, 32)) + "'; little-endian numbers and bool are read");
}

Result<Dims> parse_shape(std::string_view value) {
  if (value.empty() || value[0] != '(') return invalid(".npy: 'shape' is not a tuple");
  Dims dims;
  size_t at = 1;
  while (at < value.size() && value[at] != ')') {
    char c = value[at];
    if (c == ',' || std::isspace(static_cast<unsigned char>(c))) {
      ++at;
      continue;
    }
    int64_t v = 0;
    auto [end, error] = std::from_chars(value.data() + at, value.data() + value.size(), v);
    if (error != std::errc() || v < 0) return invalid(".npy: 'shape' holds something that is not a size");
    if (dims.rank == kMaxRank) return unsupported(".npy: more than " + std::to_string(kMaxRank) + " axes");
    dims.push(v);
    at = static_cast<size_t>(end - value.data());
  }
  return dims;
}

std::vector<std::byte> from_fortran(std::string_view data, const Dims& dims, int64_t size) {
  std::vector<std::byte> out(data.size());
  int64_t index[kMaxRank] = {};
  for (int64_t i = 0, n = dims.count(); i < n; ++i) {
    int64_t at = 0;
    for (int d = dims.rank - 1; d >= 0; --d) at = at * dims[d] + index[d];
    std::memcpy(out.data() + i * size, data.data() + at * size, static_cast<size_t>(size));
    for (int d = dims.rank - 1; d >= 0 && ++index[d] == dims[d]; --d) index[d] = 0;
  }
  return out;
}

uint64_t little(std::string_view bytes, size_t at, int n) {
  uint64_t v = 0;
  for (int i = 0; i < n; ++i) v |= static_cast<uint64_t>(static_cast<uint8_t>(bytes[at + static_cast<size_t>(i)])) << (8 * i);
  return v;
}

}  // namespace

Result<ConstantPtr> parse_npy(std::string_view bytes) {
  if (bytes.size() < 12 || bytes.substr(0, 6) != "\x93NUMPY") return invalid(".npy: does not start with NumPy's magic bytes");
  int major = static_cast<uint8_t>(bytes[6]);
  if (major < 1 || major > 3) return unsupported(".npy: format version " + std::to_string(major) + ", 1 to 3 are read");
  size_t length = little(bytes, 8, major == 1 ? 2 : 4), start = major == 1 ? 10 : 12;
  if (length > bytes.size() - start) return invalid(".npy: the header ends outside the file");
  std::string_view header = bytes.substr(start, length), data = bytes.substr(start + length);
  auto descr = member(header, "descr"), shape = member(header, "shape"), fortran = member(header, "fortran_order");
  if (!descr || !shape || !fortran) return invalid(".npy: the header lacks 'descr', 'shape' or 'fortran_order'");
  BRISK_ASSIGN(DType dtype, parse_descr(*descr));
  BRISK_ASSIGN(Dims dims, parse_shape(*shape));
  auto count = checked_count({dims.d, static_cast<size_t>(dims.rank)});
  auto size = count ? checked_mul(*count, dtype_bits(dtype) / 8) : std::nullopt;
  if (!size || static_cast<uint64_t>(*size) != data.size())
    return invalid(".npy: " + std::to_string(data.size()) + " bytes of data do not fit " + std::string(dtype_name(dtype)) + to_string(dims));
  auto c = std::make_shared<Constant>();
  c->dtype = dtype;
  c->shape = dims;
  if (fortran->starts_with("True")) {
    c->data = Buffer::of(from_fortran(data, dims, dtype_bits(dtype) / 8));
  } else {
    auto* p = reinterpret_cast<const std::byte*>(data.data());
    c->data = Buffer::of({p, p + data.size()});
  }
  return ConstantPtr(c);
}

Result<ConstantPtr> read_npy(const std::string& path) {
  BRISK_ASSIGN(auto file, MappedFile::open(path));
  auto c = parse_npy({reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()});
  if (!c.ok()) return std::move(c).error().in(path);
  return c;
}

Result<std::map<std::string, ConstantPtr>> read_npz(const std::string& path) {
  BRISK_ASSIGN(auto file, MappedFile::open(path));
  auto entries = unzip({reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()});
  if (!entries.ok()) return std::move(entries).error().in(path);
  std::map<std::string, ConstantPtr> out;
  for (auto& [name, bytes] : *entries) {
    auto c = parse_npy(bytes);
    if (!c.ok()) return std::move(c).error().in(path + ": " + name);
    out[name.ends_with(".npy") ? name.substr(0, name.size() - 4) : name] = std::move(*c);
  }
  return out;
}

Result<std::string> format_npy(const Constant& c) {
  if (!c.encoding.plain()) return internal(".npy: a quantised constant");
  DType stored = c.dtype;
  if (dtype_bits(stored) < 8 && is_integer(stored)) stored = stored == DType::kI4 || stored == DType::kI2 ? DType::kI8 : DType::kU8;
  if (stored == DType::kBF16 || (is_float(stored) && dtype_bits(stored) <= 8)) stored = DType::kF32;
  const char* descr = nullptr;
  for (const Descr& d : kDescrs)
    if (d.dtype == stored) descr = d.text;
  if (!descr) return unsupported(".npy: elements of type " + std::string(dtype_name(c.dtype)));
  std::string header = std::string("{'descr': '") + (dtype_bits(stored) == 8 ? '|' : '<') + descr + "', 'fortran_order': False, 'shape': (";
  for (int i = 0; i < c.shape.rank; ++i) header += std::to_string(c.shape[i]) + (c.shape.rank == 1 || i + 1 < c.shape.rank ? "," : "");
  header += "), }";
  header.append(64 - (header.size() + 11) % 64, ' ');
  header += '\n';
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(header.size() & 255);
  out += static_cast<char>(header.size() >> 8);
  out += header;
  if (stored == c.dtype) {
    out.append(reinterpret_cast<const char*>(c.data.bytes.data()), c.data.bytes.size());
    return out;
  }
  size_t at = out.size();
  int64_t size = dtype_bits(stored) / 8;
  out.resize(at + static_cast<size_t>(c.count() * size));
  for (int64_t i = 0; i < c.count(); ++i) {
    if (stored == DType::kF32) {
      float v = load_float(c.data.bytes.data(), c.dtype, i);
      std::memcpy(out.data() + at + static_cast<size_t>(i * size), &v, sizeof v);
    } else {
      out[at + static_cast<size_t>(i)] = static_cast<char>(load_int(c.data.bytes.data(), c.dtype, i));
    }
  }
  return out;
}

namespace {

Status write_whole(const std::string& path, std::string_view text) {
  BRISK_ASSIGN(auto file, AtomicFile::create(path));
  BRISK_TRY(file->write({reinterpret_cast<const std::byte*>(text.data()), text.size()}));
  return file->commit();
}

}  // namespace

Status write_npy(const std::string& path, const Constant& c) {
  BRISK_ASSIGN(std::string bytes, format_npy(c));
  return write_whole(path, bytes);
}

Status write_npz(const std::string& path, const std::map<std::string, ConstantPtr>& arrays) {
  std::map<std::string, std::string> entries;
  for (const auto& [name, c] : arrays) {
    BRISK_ASSIGN(entries[name + ".npy"], format_npy(*c));
  }
  BRISK_ASSIGN(std::string bytes, zip(entries));
  return write_whole(path, bytes);
}

}  // namespace brisk
