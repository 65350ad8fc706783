#include "import/onnx/tensor_proto.h"

#include <filesystem>

#include "base/checked.h"
#include "import/onnx/model.h"
#include "import/onnx/proto_tensor.h"
#include "onnx-ml.pb.h"

namespace brisk::onnx_import {
namespace {

struct TypeRow {
  int32_t onnx;
  const char* name;
  std::optional<DType> dtype;
};
const TypeRow kTypes[] = {
    {1, "float", DType::kF32},       {2, "uint8", DType::kU8},       {3, "int8", DType::kI8},
    {4, "uint16", DType::kU16},      {5, "int16", DType::kI16},      {6, "int32", DType::kI32},
    {7, "int64", DType::kI64},       {8, "string", std::nullopt},    {9, "bool", DType::kBool},
    {10, "float16", DType::kF16},    {11, "double", DType::kF64},    {12, "uint32", DType::kU32},
    {13, "uint64", DType::kU64},     {14, "complex64", std::nullopt}, {15, "complex128", std::nullopt},
    {16, "bfloat16", DType::kBF16},  {17, "float8e4m3fn", DType::kF8E4M3}, {18, "float8e4m3fnuz", DType::kF8E4M3Fnuz},
    {19, "float8e5m2", DType::kF8E5M2}, {20, "float8e5m2fnuz", DType::kF8E5M2Fnuz}, {21, "uint4", DType::kU4},
    {22, "int4", DType::kI4},        {23, "float4e2m1", DType::kF4E2M1}, {24, "float8e8m0", DType::kF8E8M0},
    {25, "uint2", DType::kU2},       {26, "int2", DType::kI2},        {27, "float6e2m3", std::nullopt},
    {28, "float6e3m2", std::nullopt},
};

// Elements that came one to an int32 (ONNX packs raw_data, and int32_data of elements below 8 bits).
std::vector<std::byte> from_int32(const onnx::TensorProto& t, DType type, int64_t count) {
  std::vector<std::byte> out(static_cast<size_t>(dtype_bytes(type, count)));
  size_t width = std::max<size_t>(1, static_cast<size_t>(dtype_bits(type)) / 8);
  for (size_t i = 0; i < out.size() / width; ++i) {
    auto v = static_cast<uint32_t>(t.int32_data(static_cast<int>(i)));
    std::memcpy(out.data() + i * width, &v, width);
  }
  return out;
}

template <class T, class Field> std::vector<std::byte> from_field(const Field& f) {
  std::vector<std::byte> out(static_cast<size_t>(f.size()) * sizeof(T));
  for (int i = 0; i < f.size(); ++i) {
    auto v = static_cast<T>(f.Get(i));
    std::memcpy(out.data() + static_cast<size_t>(i) * sizeof(T), &v, sizeof v);
  }
  return out;
}

// Elements given in the typed fields; an error if there are not `count` of them.
Result<Buffer> typed_field(const onnx::TensorProto& t, DType type, int64_t count) {
  auto right = [&](int have, int64_t want) -> Status {
    if (have == want) return {};
    return invalid("holds " + std::to_string(have) + " elements, its dims ask for " + std::to_string(want));
  };
  switch (type) {
    case DType::kF32: BRISK_TRY(right(t.float_data_size(), count)); return Buffer::of(from_field<float>(t.float_data()));
    case DType::kF64: BRISK_TRY(right(t.double_data_size(), count)); return Buffer::of(from_field<double>(t.double_data()));
    case DType::kI64: BRISK_TRY(right(t.int64_data_size(), count)); return Buffer::of(from_field<int64_t>(t.int64_data()));
    case DType::kU64: BRISK_TRY(right(t.uint64_data_size(), count)); return Buffer::of(from_field<uint64_t>(t.uint64_data()));
    case DType::kU32: BRISK_TRY(right(t.uint64_data_size(), count)); return Buffer::of(from_field<uint32_t>(t.uint64_data()));
    default:
      BRISK_TRY(right(t.int32_data_size(), dtype_bits(type) < 8 ? dtype_bytes(type, count) : count));
      return Buffer::of(from_int32(t, type, count));
  }
}

Result<int64_t> number_entry(const std::string& key, const std::string& text) {
  int64_t v = 0;
  size_t used = 0;
  for (char c : text) {
    if (c < '0' || c > '9') break;
    auto next = checked_mul(v, 10);
    next = next ? checked_add(*next, c - '0') : std::nullopt;
    if (!next) return invalid("external data: '" + key + "' is too large");
    v = *next;
    ++used;
  }
  if (used == 0 || used != text.size()) return invalid("external data: '" + key + "' is not a number");
  return v;
}

Result<Buffer> external_bytes(const onnx::TensorProto& t, int64_t size, ExternalFiles* external) {
  if (!external) return invalid("external data is not allowed here");
  std::string location;
  int64_t offset = 0, length = size;
  for (const auto& e : t.external_data()) {
    if (e.key() == "location") location = e.value();
    if (e.key() == "offset") { BRISK_ASSIGN(offset, number_entry(e.key(), e.value())); }
    if (e.key() == "length") { BRISK_ASSIGN(length, number_entry(e.key(), e.value())); }
  }
  BRISK_ASSIGN(auto file, external->open(location));
  if (length != size) return invalid("external data: length " + std::to_string(length) + ", its dims ask for " + std::to_string(size) + " bytes");
  auto bytes = file->bytes();
  if (!inside(static_cast<uint64_t>(offset), static_cast<uint64_t>(size), bytes.size()))
    return invalid("external data: bytes " + std::to_string(offset) + " to +" + std::to_string(size) + " lie outside '" + location +
                   "' of " + std::to_string(bytes.size()) + " bytes");
  return Buffer{bytes.subspan(static_cast<size_t>(offset), static_cast<size_t>(size)), file};
}

}  // namespace

std::optional<DType> dtype_of_onnx(int32_t data_type) {
  for (const TypeRow& r : kTypes)
    if (r.onnx == data_type) return r.dtype;
  return std::nullopt;
}
int32_t onnx_of_dtype(DType t) {
  for (const TypeRow& r : kTypes)
    if (r.dtype == t) return r.onnx;
  return 0;
}
std::string onnx_dtype_name(int32_t data_type) {
  for (const TypeRow& r : kTypes)
    if (r.onnx == data_type) return r.name;
  return "type " + std::to_string(data_type);
}

Result<std::shared_ptr<MappedFile>> ExternalFiles::open(const std::string& location) {
  namespace fs = std::filesystem;
  if (auto it = files_.find(location); it != files_.end()) return it->second;
  fs::path relative(location);
  if (location.empty() || location.find('\0') != std::string::npos || relative.is_absolute())
    return invalid("external data: location '" + location + "' must be a file inside the model's folder");
  fs::path at(folder_);
  for (const fs::path& part : relative) {
    if (part == "..") return invalid("external data: location '" + location + "' leads out of the model's folder");
    at /= part;
    std::error_code error;
    if (fs::is_symlink(fs::symlink_status(at, error))) return invalid("external data: '" + location + "' is or passes a link");
  }
  auto file = MappedFile::open(at.string());
  if (!file.ok()) return std::move(file).error().in("external data");
  return files_[location] = std::move(*file);
}

Result<ConstantPtr> take_tensor(onnx::TensorProto& t, ExternalFiles* external) {
  auto type = dtype_of_onnx(t.data_type());
  if (!type) return unsupported("elements of type " + onnx_dtype_name(t.data_type()));
  if (t.has_segment()) return unsupported("a tensor in segments");
  if (t.dims_size() > kMaxRank) return unsupported("rank " + std::to_string(t.dims_size()) + ", at most " + std::to_string(kMaxRank));
  std::vector<int64_t> dims(t.dims().begin(), t.dims().end());
  auto count = checked_count(dims);
  if (!count || !checked_mul(*count, 8)) return invalid("dims are negative or too large");
  int64_t size = dtype_bytes(*type, *count);
  auto c = std::make_shared<Constant>();
  c->dtype = *type;
  c->shape = Dims(std::span<const int64_t>(dims));
  if (t.data_location() == onnx::TensorProto::EXTERNAL) {
    BRISK_ASSIGN(c->data, external_bytes(t, size, external));
  } else if (t.has_raw_data()) {
    if (static_cast<int64_t>(t.raw_data().size()) != size)
      return invalid("holds " + std::to_string(t.raw_data().size()) + " bytes, its dims ask for " + std::to_string(size));
    auto owner = std::make_shared<std::string>(std::move(*t.mutable_raw_data()));
    c->data = {{reinterpret_cast<const std::byte*>(owner->data()), owner->size()}, owner};
  } else {
    BRISK_ASSIGN(c->data, typed_field(t, *type, *count));
  }
  // Kernels read whole elements: what does not lie on their boundary is copied.
  if (reinterpret_cast<uintptr_t>(c->data.bytes.data()) % 8 != 0 && size > 0)
    c->data = Buffer::of({c->data.bytes.begin(), c->data.bytes.end()});
  return ConstantPtr(c);
}

}  // namespace brisk::onnx_import

namespace brisk {

Result<ConstantPtr> parse_tensor_proto(std::string_view bytes) {
  onnx::TensorProto t;
  if (bytes.size() > INT32_MAX || !t.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return invalid("not a TensorProto");
  return onnx_import::take_tensor(t, nullptr);
}

Result<ConstantPtr> read_pb(const std::string& path) {
  BRISK_ASSIGN(std::string bytes, read_file(path, 1ull << 31));
  if (bytes.empty()) return ConstantPtr();
  auto c = parse_tensor_proto(bytes);
  if (!c.ok()) return std::move(c).error().in(path);
  return c;
}

std::string format_tensor_proto(const Constant& c, const std::string& name) {
  onnx::TensorProto t;
  t.set_data_type(onnx_import::onnx_of_dtype(c.dtype));
  for (int64_t d : c.shape) t.add_dims(d);
  t.set_raw_data(c.data.bytes.data(), c.data.bytes.size());
  if (!name.empty()) t.set_name(name);
  return t.SerializeAsString();
}

Status write_pb(const std::string& path, const Constant& c, const std::string& name) {
  BRISK_ASSIGN(auto file, AtomicFile::create(path));
  std::string bytes = format_tensor_proto(c, name);
  BRISK_TRY(file->write({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()}));
  return file->commit();
}

}  // namespace brisk
