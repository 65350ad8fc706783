#include "import/hf/safetensors.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "base/checked.h"

namespace brisk {
namespace {

constexpr uint64_t kMaxHeader = 100u << 20;  // the format's own limit
constexpr uint64_t kMaxIndex = 64u << 20;
constexpr size_t kMaxName = 4096, kMaxShards = 4096;

struct TypeName {
  const char* name;
  DType dtype;
  int bits;
};
// Types without a DType are sized, so that offsets can be checked.
constexpr TypeName kTypes[] = {
    {"F32", DType::kF32, 32}, {"F16", DType::kF16, 16}, {"BF16", DType::kBF16, 16}, {"F64", DType::kF64, 64},
    {"I8", DType::kI8, 8}, {"U8", DType::kU8, 8}, {"I16", DType::kI16, 16}, {"U16", DType::kU16, 16},
    {"I32", DType::kI32, 32}, {"U32", DType::kU32, 32}, {"I64", DType::kI64, 64}, {"U64", DType::kU64, 64},
    {"BOOL", DType::kBool, 8}, {"F8_E4M3", DType::kF8E4M3, 8}, {"F8_E5M2", DType::kF8E5M2, 8},
    {"F8_E8M0", DType::kString, 8}, {"C64", DType::kString, 64},
};

const TypeName* type_of(std::string_view name) {
  for (const auto& t : kTypes)
    if (name == t.name) return &t;
  return nullptr;
}

// A stream of JSON events; what() tells the first thing that is wrong. Anything not overridden is refused.
class Events : public nlohmann::json::json_sax_t {
 public:
  bool null() override { return refuse("null"); }
  bool boolean(bool) override { return refuse("true or false"); }
  bool number_integer(int64_t v) override { return refuse("the number " + std::to_string(v)); }
  bool number_unsigned(uint64_t v) override { return refuse("the number " + std::to_string(v)); }
  bool number_float(double, const std::string& s) override { return refuse("the number " + s.substr(0, 40)); }
  bool string(std::string& s) override { return refuse("the string '" + s.substr(0, 40) + "'"); }
  bool binary(nlohmann::json::binary_t&) override { return refuse("binary data"); }
  bool start_array(size_t) override { return refuse("an array"); }
  bool end_array() override { return refuse("the end of an array"); }
  bool parse_error(size_t at, const std::string&, const nlohmann::json::exception&) override {
    return fail("not JSON at byte " + std::to_string(at));
  }
  const std::string& what() const { return what_; }

 protected:
  virtual std::string place() const = 0;
  bool refuse(const std::string& found) { return fail(place() + " must not be " + found); }
  bool fail(std::string what) {
    if (what_.empty()) what_ = std::move(what);
    return false;
  }

 private:
  std::string what_;
};

struct RawTensor {
  SafeTensor tensor;
  uint64_t begin = 0, end = 0;
};

// {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, "__metadata__": {"key": "text"}}
class HeaderEvents : public Events {
 public:
  explicit HeaderEvents(std::deque<RawTensor>& out) : out_(out) {}

  bool start_object(size_t) override {
    if (at_ == At::kStart) return at_ = At::kTop, true;
    if (at_ == At::kName) return at_ = metadata_ ? At::kMetadata : At::kTensor, true;
    return refuse("an object");
  }
  bool key(std::string& k) override {
    if (at_ == At::kTop) {
      if (k.size() > kMaxName) return fail("a tensor name of " + std::to_string(k.size()) + " bytes, at most " + std::to_string(kMaxName));
      metadata_ = k == "__metadata__";
      if (!metadata_) {
        out_.emplace_back().tensor.name = k;
        fields_ = 0;
      }
      return at_ = At::kName, true;
    }
    if (at_ == At::kMetadata) return true;
    if (at_ != At::kTensor) return refuse("a key");
    static constexpr std::pair<std::string_view, At> kFields[] = {{"dtype", At::kType}, {"shape", At::kShape}, {"data_offsets", At::kOffsets}};
    for (size_t i = 0; i < 3; ++i)
      if (k == kFields[i].first) {
        if (fields_ & 1u << i) return fail(place() + ": " + k + " occurs twice");
        fields_ |= 1u << i;
        return at_ = kFields[i].second, numbers_ = 0, open_ = false, true;
      }
    return fail(place() + ": unknown field '" + k.substr(0, 64) + "'");
  }
  bool end_object() override {
    if (at_ == At::kTensor && fields_ != 7) return fail(place() + ": dtype, shape or data_offsets is missing");
    at_ = at_ == At::kTop ? At::kEnd : At::kTop;
    return true;
  }
  bool string(std::string& s) override {
    if (at_ == At::kMetadata) return true;
    if (at_ != At::kType) return Events::string(s);
    out_.back().tensor.type = s.substr(0, 32);
    return at_ = At::kTensor, true;
  }
  bool start_array(size_t n) override {
    if ((at_ != At::kShape && at_ != At::kOffsets) || open_) return Events::start_array(n);
    return open_ = true;
  }
  bool end_array() override {
    if (at_ == At::kOffsets && numbers_ != 2) return fail(place() + ": data_offsets has " + std::to_string(numbers_) + " numbers, wanted 2");
    return at_ = At::kTensor, true;
  }
  bool number_unsigned(uint64_t v) override {
    if (!open_ || v > static_cast<uint64_t>(INT64_MAX)) return Events::number_unsigned(v);
    RawTensor& t = out_.back();
    if (at_ == At::kShape) {
      if (numbers_++ == kMaxRank) return fail(place() + ": more than " + std::to_string(kMaxRank) + " dimensions");
      return t.tensor.shape.push(static_cast<int64_t>(v)), true;
    }
    if (at_ != At::kOffsets || numbers_ == 2) return Events::number_unsigned(v);
    return (numbers_++ ? t.end : t.begin) = v, true;
  }

 private:
  enum class At : uint8_t { kStart, kTop, kName, kMetadata, kTensor, kType, kShape, kOffsets, kEnd };
  std::string place() const override {
    if (at_ == At::kStart) return "the header";
    if (metadata_) return "the value of __metadata__";
    return out_.empty() ? "the header" : "tensor '" + out_.back().tensor.name + "'";
  }

  std::deque<RawTensor>& out_;
  At at_ = At::kStart;
  bool metadata_ = false, open_ = false;
  unsigned fields_ = 0;
  int numbers_ = 0;
};

// {"metadata": anything, "weight_map": {"tensor": "file"}}
class IndexEvents : public Events {
 public:
  IndexEvents(std::map<std::string, std::vector<std::string>>& tensors_of) : tensors_of_(tensors_of) {}

  bool null() override { return ignored("null"); }
  bool boolean(bool) override { return ignored("true or false"); }
  bool number_integer(int64_t) override { return ignored("a number"); }
  bool number_unsigned(uint64_t) override { return ignored("a number"); }
  bool number_float(double, const std::string&) override { return ignored("a number"); }
  bool start_array(size_t) override { return deeper() && ignored("an array"); }
  bool end_array() override { return --depth_, true; }
  bool start_object(size_t) override {
    if (in_map_) return ignored("an object");
    if (depth_ == 1 && key_ == "weight_map") in_map_ = true;
    return deeper();
  }
  bool end_object() override { return --depth_, in_map_ = false, true; }
  bool key(std::string& k) override {
    if (k.size() > kMaxName) return fail("a name of " + std::to_string(k.size()) + " bytes, at most " + std::to_string(kMaxName));
    return key_ = k, true;
  }
  bool string(std::string& file) override {
    if (!in_map_) return true;
    if (!file.ends_with(".safetensors") || file.find_first_of("/\\") != std::string::npos || file.find('\0') != std::string::npos || file.starts_with('.'))
      return fail("weight_map names '" + file.substr(0, 200) + "' for '" + key_ + "': wanted the name of a .safetensors file inside the folder");
    if (tensors_of_.size() == kMaxShards && !tensors_of_.contains(file)) return fail("more than " + std::to_string(kMaxShards) + " shards");
    return tensors_of_[file].push_back(key_), true;
  }

 private:
  std::string place() const override { return "weight_map of '" + key_ + "'"; }
  bool ignored(const char* found) { return in_map_ ? refuse(found) : true; }
  bool deeper() { return ++depth_ <= 16 ? true : fail("nested deeper than 16"); }

  std::map<std::string, std::vector<std::string>>& tensors_of_;
  std::string key_;
  int depth_ = 0;
  bool in_map_ = false;
};

Status parse(std::string_view text, Events& events) {
  nlohmann::json::sax_parse(text.begin(), text.end(), &events);
  if (!events.what().empty()) return invalid(events.what());
  return {};
}

// Sizes that agree with shape and type; no holes, no overlaps.
Status place(std::deque<RawTensor>& tensors, std::span<const std::byte> data) {
  std::sort(tensors.begin(), tensors.end(), [](const RawTensor& a, const RawTensor& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  uint64_t at = 0;
  for (RawTensor& t : tensors) {
    std::string who = "tensor '" + t.tensor.name + "'", range = std::to_string(t.begin) + " to " + std::to_string(t.end);
    if (t.begin != at)
      return invalid(who + ": data_offsets " + range + (t.begin > at ? " leave a hole after " : " overlap the tensor that ends at ") + std::to_string(at));
    if (t.end < t.begin || t.end > data.size())
      return invalid(who + ": data_offsets " + range + ", allowed are 0 to " + std::to_string(data.size()));
    const TypeName* type = type_of(t.tensor.type);
    auto count = checked_count(t.tensor.shape);
    if (type) {
      auto bits = count ? checked_mul(*count, type->bits) : std::nullopt;
      if (!bits || static_cast<uint64_t>(*bits / 8) != t.end - t.begin)
        return invalid(who + ": " + t.tensor.type + to_string(t.tensor.shape) + " does not take the " + std::to_string(t.end - t.begin) + " bytes that data_offsets give it");
      t.tensor.dtype = type->dtype;
    }
    t.tensor.bytes = data.subspan(t.begin, t.end - t.begin);
    at = t.end;
  }
  if (at != data.size()) return invalid("tensors end at byte " + std::to_string(at) + " of " + std::to_string(data.size()) + " bytes of data");
  return {};
}

}  // namespace

Status SafeTensors::add(const std::string& path) {
  BRISK_ASSIGN(auto file, MappedFile::open(path));
  auto bytes = file->bytes();
  uint64_t size = 0;
  if (bytes.size() < 8) return invalid(path + ": " + std::to_string(bytes.size()) + " bytes, a safetensors file has at least 8");
  std::memcpy(&size, bytes.data(), 8);
  if (size > kMaxHeader || size > bytes.size() - 8)
    return invalid(path + ": a header of " + std::to_string(size) + " bytes, allowed are 2 to " + std::to_string(std::min<uint64_t>(kMaxHeader, bytes.size() - 8)));
  std::deque<RawTensor> raw;
  HeaderEvents events(raw);
  if (auto s = parse({reinterpret_cast<const char*>(bytes.data()) + 8, size}, events); !s.ok()) return std::move(s).error().in(path + ": header");
  if (auto s = place(raw, bytes.subspan(8 + size)); !s.ok()) return std::move(s).error().in(path);
  for (RawTensor& t : raw) {
    t.tensor.file = static_cast<uint32_t>(files_.size());
    tensors_.push_back(std::move(t.tensor));
  }
  files_.push_back(std::move(file));
  return {};
}

Status SafeTensors::finish() {
  std::sort(tensors_.begin(), tensors_.end(), [](const SafeTensor& a, const SafeTensor& b) { return a.name < b.name; });
  for (size_t i = 1; i < tensors_.size(); ++i)
    if (tensors_[i].name == tensors_[i - 1].name)
      return invalid(files_[tensors_[i].file]->path() + ": tensor '" + tensors_[i].name + "' occurs twice");
  return {};
}

Result<std::shared_ptr<const SafeTensors>> SafeTensors::open_file(const std::string& path) {
  auto s = std::make_shared<SafeTensors>();
  BRISK_TRY(s->add(path));
  BRISK_TRY(s->finish());
  return std::shared_ptr<const SafeTensors>(std::move(s));
}

Result<std::shared_ptr<const SafeTensors>> SafeTensors::open_folder(const std::string& folder) {
  std::string single = folder + "/model.safetensors", index = single + ".index.json";
  if (is_file(single)) return open_file(single);
  if (!is_file(index)) {
    for (const char* pickle : {"pytorch_model.bin", "pytorch_model.bin.index.json", "consolidated.00.pth", "model.pt"})
      if (is_file(folder + "/" + pickle))
        return unsupported(folder + ": weights are a pickle (" + pickle + "), which can run code and is never opened; convert them: "
                           "transformers' save_pretrained writes model.safetensors");
    return invalid(folder + ": no model.safetensors and no model.safetensors.index.json");
  }
  BRISK_ASSIGN(auto text, read_file(index, kMaxIndex));
  std::map<std::string, std::vector<std::string>> tensors_of;
  IndexEvents events(tensors_of);
  if (auto s = parse(text, events); !s.ok()) return std::move(s).error().in(index);
  if (tensors_of.empty()) return invalid(index + ": weight_map is missing or empty");
  auto all = std::make_shared<SafeTensors>();
  for (const auto& [file, names] : tensors_of) BRISK_TRY(all->add(folder + "/" + file));
  BRISK_TRY(all->finish());
  for (const auto& [file, names] : tensors_of)
    for (const std::string& name : names) {
      const SafeTensor* t = all->find(name);
      if (!t || !all->files_[t->file]->path().ends_with("/" + file))
        return invalid(index + ": weight_map says that '" + name + "' is in '" + file + "', where it is not");
    }
  return std::shared_ptr<const SafeTensors>(std::move(all));
}

const SafeTensor* SafeTensors::find(std::string_view name) const {
  auto it = std::lower_bound(tensors_.begin(), tensors_.end(), name, [](const SafeTensor& t, std::string_view n) { return t.name < n; });
  return it != tensors_.end() && it->name == name ? &*it : nullptr;
}

ConstantPtr SafeTensors::load(const SafeTensor& t) const {
  auto c = std::make_shared<Constant>();
  c->dtype = t.dtype;
  c->shape = t.shape;
  auto element = static_cast<uintptr_t>(dtype_bits(t.dtype)) / 8;
  bool aligned = reinterpret_cast<uintptr_t>(t.bytes.data()) % element == 0;
  c->data = aligned ? Buffer{t.bytes, files_[t.file]} : Buffer::of({t.bytes.begin(), t.bytes.end()});
  return c;
}

}  // namespace brisk
