#include <cstring>
#include <unordered_map>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/file.h"
#include "engine/engine_file.h"
#include "engine/layout.h"
#include "engine_generated.h"

namespace brisk {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
template <class T> using Tables = Offset<flatbuffers::Vector<Offset<T>>>;
using layout::Section;

uint64_t aligned(uint64_t n) { return (n + layout::kAlignment - 1) / layout::kAlignment * layout::kAlignment; }

std::span<const std::byte> as_bytes(const std::string& s) {
  return {reinterpret_cast<const std::byte*>(s.data()), s.size()};
}

class Metadata {
 public:
  Result<std::string> build(const EngineContent& c) {
    std::vector<Offset<fb::Function>> functions;
    for (auto& [name, plan] : c.functions) {
      auto p = this->plan(plan);
      functions.push_back(fb::CreateFunction(b_, text(name), p));
    }
    std::vector<Offset<fb::LayerLoss>> losses;
    for (auto& l : c.layer_loss) {
      auto name = text(l.name), encoding = text(l.encoding);
      losses.push_back(fb::CreateLayerLoss(b_, name, encoding, l.sqnr_db));
    }
    std::vector<Offset<flatbuffers::String>> isa;
    for (auto& f : c.required_isa) isa.push_back(text(f));
    auto all_functions = b_.CreateVector(functions);
    auto all_weights = weights(c.weights);
    auto metadata = pairs(c.metadata), record = pairs(c.build_record);
    auto all_isa = b_.CreateVector(isa);
    auto all_losses = b_.CreateVector(losses);
    b_.Finish(fb::CreateEngine(b_, all_functions, all_weights, metadata, record, all_isa, all_losses, text(c.device),
                               c.max_context),
              fb::EngineIdentifier());
    if (!unreadable_.empty()) return unsupported(unreadable_.substr(0, 1000) + " is too large an expression to store");
    if (b_.GetSize() > layout::kMaxMetadata)
      return unsupported("metadata of " + std::to_string(b_.GetSize()) + " bytes, at most " +
                         std::to_string(layout::kMaxMetadata));
    return std::string(reinterpret_cast<const char*>(b_.GetBufferPointer()), b_.GetSize());
  }

 private:
  // Equal strings are stored once.
  Offset<flatbuffers::String> text(const std::string& s) { return b_.CreateSharedString(s); }

  Tables<fb::Pair> pairs(const std::map<std::string, std::string>& map) {
    std::vector<Offset<fb::Pair>> out;
    for (auto& [key, value] : map) {
      auto k = text(key), v = text(value);
      out.push_back(fb::CreatePair(b_, k, v));
    }
    return b_.CreateVector(out);
  }

  Tables<fb::Weight> weights(const std::vector<Weight>& weights) {
    std::vector<Offset<fb::Weight>> out;
    uint64_t offset = 0;
    for (const Weight& w : weights) {
      offset = aligned(offset);
      const Encoding& e = w.encoding;
      fb::Encoding encoding(e.axis, e.group, e.bits, static_cast<uint8_t>(e.code_dtype),
                            static_cast<uint8_t>(e.scale_dtype), static_cast<uint8_t>(e.offset));
      auto name = text(w.name), packing = text(w.packing);
      auto shape = b_.CreateVector(w.shape.d, static_cast<size_t>(w.shape.rank));
      out.push_back(fb::CreateWeight(b_, name, static_cast<uint8_t>(w.dtype), shape, &encoding, packing, offset,
                                     w.bytes.bytes.size()));
      offset += w.bytes.bytes.size();
    }
    return b_.CreateVector(out);
  }

  // The distinct dimensions of one plan, in order of first use.
  struct Dims {
    std::vector<Offset<flatbuffers::String>> texts;
    std::unordered_map<std::string, uint32_t> index;
  };

  Offset<fb::Value> value(const PlanValue& v, Dims& dims) {
    std::vector<uint32_t> shape;
    for (const Dim& d : v.shape) {
      std::string t = d.to_string();
      auto [it, fresh] = dims.index.emplace(t, static_cast<uint32_t>(dims.texts.size()));
      if (fresh) {
        dims.texts.push_back(text(t));
        if (auto again = Dim::parse(t); (!again || !(*again == d)) && unreadable_.empty()) unreadable_ = "value '" + v.name + "': dimension " + t;
      }
      shape.push_back(it->second);
    }
    auto name = text(v.name);
    auto shape_at = b_.CreateVector(shape);
    return fb::CreateValue(b_, name, static_cast<uint8_t>(v.kind), static_cast<uint8_t>(v.dtype), v.ranked, shape_at,
                           v.weight, v.view_of);
  }

  Offset<fb::Step> step(const PlanStep& s) {
    std::vector<Offset<fb::Plan>> blocks;
    for (const Plan& p : s.blocks) blocks.push_back(plan(p));
    std::string attrs = encode(s.attrs);
    auto op = text(op_name(s.op)), kernel = text(s.kernel), name = text(s.name);
    auto attrs_at = b_.CreateVector(reinterpret_cast<const uint8_t*>(attrs.data()), attrs.size());
    auto inputs = b_.CreateVector(s.inputs), outputs = b_.CreateVector(s.outputs);
    auto blocks_at = blocks.empty() ? Tables<fb::Plan>() : b_.CreateVector(blocks);
    return fb::CreateStep(b_, op, attrs_at, kernel, s.kernel_version, inputs, outputs, blocks_at, s.captures, s.dynamic,
                          name);
  }

  Offset<fb::Plan> plan(const Plan& p) {
    Dims dims;
    std::vector<Offset<fb::Value>> values;
    for (auto& v : p.values) values.push_back(value(v, dims));
    std::vector<Offset<fb::Step>> steps;
    for (auto& s : p.steps) steps.push_back(step(s));
    std::vector<Offset<fb::State>> states;
    for (auto& s : p.states)
      states.push_back(fb::CreateState(b_, s.value, text(s.name), static_cast<uint8_t>(s.kind),
                                       static_cast<uint8_t>(s.dtype), s.kv_heads, s.head_dim, s.width));
    std::vector<Offset<fb::Symbol>> symbols;
    for (auto& s : p.symbols) symbols.push_back(fb::CreateSymbol(b_, text(s.name), s.min, s.opt, s.max));
    auto name = text(p.name);
    auto dims_at = b_.CreateVector(dims.texts);
    auto values_at = b_.CreateVector(values);
    auto steps_at = b_.CreateVector(steps);
    auto inputs = b_.CreateVector(p.inputs), outputs = b_.CreateVector(p.outputs);
    auto states_at = b_.CreateVector(states);
    auto symbols_at = b_.CreateVector(symbols);
    return fb::CreatePlan(b_, name, dims_at, values_at, steps_at, inputs, outputs, states_at, symbols_at);
  }

  FlatBufferBuilder b_;
  std::string unreadable_;  // the first dimension that a reader would refuse
};

// Appends sections to the file and keeps their table entries, hashing what passes through.
class SectionWriter {
 public:
  explicit SectionWriter(AtomicFile& file) : file_(file), state_(XXH3_createState()) {}
  ~SectionWriter() { XXH3_freeState(state_); }
  SectionWriter(const SectionWriter&) = delete;
  SectionWriter& operator=(const SectionWriter&) = delete;

  Status begin(Section kind, uint64_t alignment) {
    BRISK_TRY(file_.pad_to(alignment));
    entries.push_back({kind, 0, file_.position(), 0, 0});
    XXH3_64bits_reset(state_);
    return {};
  }
  Status write(std::span<const std::byte> bytes) {
    XXH3_64bits_update(state_, bytes.data(), bytes.size());
    return file_.write(bytes);
  }
  // Zeros up to the next multiple of kAlignment, inside the section.
  Status pad() {
    static constexpr std::byte zeros[layout::kAlignment] = {};
    uint64_t at = file_.position() - entries.back().offset;
    return write({zeros, static_cast<size_t>(aligned(at) - at)});
  }
  void end() {
    entries.back().size = file_.position() - entries.back().offset;
    entries.back().checksum = XXH3_64bits_digest(state_);
  }

  std::vector<layout::SectionEntry> entries;

 private:
  AtomicFile& file_;
  XXH3_state_t* state_;
};

Status write_blob(SectionWriter& out, Section kind, const std::string& bytes) {
  if (bytes.empty()) return {};
  BRISK_TRY(out.begin(kind, layout::kAlignment));
  BRISK_TRY(out.write(as_bytes(bytes)));
  out.end();
  return {};
}

}  // namespace

Status write_engine(const EngineContent& content, const std::string& path) {
  BRISK_ASSIGN(std::string metadata, Metadata().build(content));
  MappingWatch watch;  // weights may lie in a model's file
  BRISK_ASSIGN(auto file, AtomicFile::create(path));
  // Room for header and table; filled in when the sections' places and checksums are known.
  const std::vector<std::byte> room(sizeof(layout::Header) + layout::kSectionKinds * sizeof(layout::SectionEntry));
  BRISK_TRY(file->write(room));

  SectionWriter out(*file);
  BRISK_TRY(write_blob(out, Section::kMetadata, metadata));
  BRISK_TRY(write_blob(out, Section::kTokenizer, content.tokenizer));
  BRISK_TRY(write_blob(out, Section::kChatTemplate, content.chat_template));
  BRISK_TRY(write_blob(out, Section::kGenerationConfig, content.generation_config));
  BRISK_TRY(out.begin(Section::kWeights, layout::kPage));
  for (const Weight& w : content.weights) {
    BRISK_TRY(out.pad());
    BRISK_TRY(out.write(w.bytes.bytes));
  }
  out.end();

  layout::Header header{};
  std::memcpy(header.magic, layout::kMagic, sizeof header.magic);
  header.version = layout::kFormatVersion;
  header.sections = static_cast<uint32_t>(out.entries.size());
  header.file_size = file->position();
  std::string head(sizeof header + out.entries.size() * sizeof(layout::SectionEntry), '\0');
  std::memcpy(head.data(), &header, sizeof header);
  std::memcpy(head.data() + sizeof header, out.entries.data(), head.size() - sizeof header);
  header.checksum = XXH3_64bits(head.data(), head.size());
  std::memcpy(head.data(), &header, sizeof header);
  BRISK_TRY(file->overwrite(0, as_bytes(head)));
  BRISK_TRY(watch.check());
  return file->commit();
}

}  // namespace brisk
