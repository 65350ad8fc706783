#include "engine/decode.h"

#include <cstring>

#include "base/checked.h"
#include "engine/layout.h"
#include "engine_generated.h"

namespace brisk {
namespace {

constexpr int kMaxBlockDepth = 16;
constexpr size_t kMaxDimText = 1 << 20;   // characters of the distinct dimensions of all plans together
constexpr size_t kMaxDims = 1 << 16;      // and their number
constexpr flatbuffers::uoffset_t kMaxTables = 4'000'000;

class Decoder {
 public:
  Decoder(size_t metadata_bytes, std::span<const std::byte> weights, EngineContent& out)
      : weight_section_(weights), out_(out), budget_(static_cast<int64_t>(metadata_bytes) * 8 + (8 << 20)) {}

  Status engine(const fb::Engine& e) {
    BRISK_TRY(each(e.weights(), out_.weights, "weight", &Decoder::weight));
    if (e.functions())
      for (const fb::Function* f : *e.functions()) BRISK_TRY(function(*f));
    BRISK_TRY(pairs(e.metadata(), out_.metadata));
    BRISK_TRY(pairs(e.build_record(), out_.build_record));
    BRISK_TRY(strings(e.required_isa(), out_.required_isa));
    BRISK_TRY(each(e.layer_loss(), out_.layer_loss, "layer loss", &Decoder::loss));
    BRISK_TRY(text(e.device(), out_.device));
    out_.max_context = e.max_context();
    return {};
  }

 private:
  Status take(uint64_t bytes) {
    if (budget_ < 0 || bytes > static_cast<uint64_t>(budget_))
      return invalid("metadata unfolds to far more memory than its size explains");
    budget_ -= static_cast<int64_t>(bytes);
    return {};
  }

  Status text(const flatbuffers::String* s, std::string& out) {
    if (!s) return {};
    BRISK_TRY(take(s->size()));
    out.assign(s->c_str(), s->size());
    return {};
  }

  Status strings(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* list, std::vector<std::string>& out) {
    if (!list) return {};
    BRISK_TRY(take(list->size() * sizeof(std::string)));
    for (auto* s : *list) BRISK_TRY(text(s, out.emplace_back()));
    return {};
  }

  template <class T> Status numbers(const flatbuffers::Vector<T>* list, std::vector<T>& out) {
    if (!list) return {};
    BRISK_TRY(take(list->size() * sizeof(T)));
    out.assign(list->begin(), list->end());
    return {};
  }

  // Every table of a list by one method; errors name the index.
  template <class T, class Out>
  Status each(const flatbuffers::Vector<flatbuffers::Offset<T>>* list, std::vector<Out>& out, const char* what,
              Status (Decoder::*decode)(const T&, Out&)) {
    if (!list) return {};
    BRISK_TRY(take(list->size() * sizeof(Out)));
    out.resize(list->size());
    for (size_t i = 0; i < out.size(); ++i)
      if (auto s = (this->*decode)(*list->Get(static_cast<flatbuffers::uoffset_t>(i)), out[i]); !s.ok())
        return std::move(s).error().in(std::string(what) + " " + std::to_string(i));
    return {};
  }

  Status pairs(const flatbuffers::Vector<flatbuffers::Offset<fb::Pair>>* list, std::map<std::string, std::string>& out) {
    if (!list) return {};
    for (const fb::Pair* p : *list) {
      BRISK_TRY(take(sizeof(std::pair<std::string, std::string>) + 64));
      std::string key, value;
      BRISK_TRY(text(p->key(), key));
      BRISK_TRY(text(p->value(), value));
      if (!out.emplace(std::move(key), std::move(value)).second) return invalid("metadata names a key twice");
    }
    return {};
  }

  template <class E> Status enumerator(uint8_t v, E last, const char* what, E& out) {
    if (v > static_cast<uint8_t>(last))
      return invalid(std::string(what) + " " + std::to_string(v) + ", at most " + std::to_string(static_cast<int>(last)));
    out = static_cast<E>(v);
    return {};
  }
  Status dtype(uint8_t v, DType& out) { return enumerator(v, DType::kU2, "element type", out); }

  Status weight(const fb::Weight& w, Weight& out) {
    BRISK_TRY(text(w.name(), out.name));
    BRISK_TRY(text(w.packing(), out.packing));
    BRISK_TRY(dtype(w.dtype(), out.dtype));
    auto rank = w.shape() ? w.shape()->size() : 0;
    if (rank > kMaxRank) return invalid("rank " + std::to_string(rank) + ", at most " + std::to_string(kMaxRank));
    for (uint32_t i = 0; i < rank; ++i) {  // the verifier does not ask that elements lie on their boundary
      int64_t d = 0;
      std::memcpy(&d, w.shape()->Data() + i * sizeof d, sizeof d);
      out.shape.push(d);
    }
    if (const fb::Encoding* e = w.encoding()) {
      out.encoding.bits = e->bits();
      out.encoding.axis = e->axis();
      out.encoding.group = e->group();
      BRISK_TRY(dtype(e->code_dtype(), out.encoding.code_dtype));
      BRISK_TRY(dtype(e->scale_dtype(), out.encoding.scale_dtype));
      BRISK_TRY(enumerator(e->offset(), Encoding::Offset::kMinimum, "offset kind", out.encoding.offset));
    }
    if (!inside(w.offset(), w.size(), weight_section_.size()) || w.offset() % layout::kAlignment != 0)
      return invalid("'" + out.name + "': " + std::to_string(w.size()) + " bytes at offset " + std::to_string(w.offset()) +
                     " are not aligned inside the weight section of " + std::to_string(weight_section_.size()) + " bytes");
    out.bytes.bytes = weight_section_.subspan(w.offset(), w.size());
    return {};
  }

  Status loss(const fb::LayerLoss& l, LayerLoss& out) {
    BRISK_TRY(text(l.name(), out.name));
    BRISK_TRY(text(l.encoding(), out.encoding));
    out.sqnr_db = l.sqnr_db();
    return {};
  }

  Status function(const fb::Function& f) {
    BRISK_TRY(take(sizeof(Plan) + 128));
    std::string name;
    BRISK_TRY(text(f.name(), name));
    if (name.empty()) return invalid("a function without a name");
    auto [it, fresh] = out_.functions.emplace(name, Plan{});
    if (!fresh) return invalid("two functions named '" + name + "'");
    if (!f.plan()) return invalid("function '" + name + "' has no plan");
    if (auto s = plan(*f.plan(), it->second); !s.ok()) return std::move(s).error().in("function '" + name + "'");
    return {};
  }

  Status dims(const fb::Plan& p, std::vector<Dim>& out) {
    if (!p.dims()) return {};
    dims_ += p.dims()->size();
    if (dims_ > kMaxDims) return invalid("more than " + std::to_string(kMaxDims) + " distinct dimensions");
    for (auto* s : *p.dims()) {
      dim_text_ += s->size();
      auto d = dim_text_ > kMaxDimText ? std::nullopt : Dim::parse({s->c_str(), s->size()});
      if (!d) return invalid("dimension '" + std::string(s->c_str(), std::min<size_t>(s->size(), 80)) + "' is malformed or too large");
      BRISK_TRY(take(dim_bytes(*d)));
      out.push_back(std::move(*d));
    }
    return {};
  }

  // What a copy of the form takes, roughly.
  static uint64_t dim_bytes(const Dim& d) {
    Dim::Size s = d.size();
    return sizeof(Dim) + 64 * s.terms + 16 * s.atoms;
  }

  Status plan(const fb::Plan& p, Plan& out) {
    if (++depth_ > kMaxBlockDepth) return invalid("blocks nested more than " + std::to_string(kMaxBlockDepth) + " deep");
    std::vector<Dim> pool;
    BRISK_TRY(dims(p, pool));
    std::swap(pool, pool_);
    BRISK_TRY(text(p.name(), out.name));
    BRISK_TRY(each(p.values(), out.values, "value", &Decoder::value));
    std::swap(pool, pool_);  // blocks bring their own
    BRISK_TRY(each(p.steps(), out.steps, "step", &Decoder::step));
    BRISK_TRY(numbers(p.inputs(), out.inputs));
    BRISK_TRY(numbers(p.outputs(), out.outputs));
    BRISK_TRY(each(p.states(), out.states, "state", &Decoder::state));
    BRISK_TRY(each(p.symbols(), out.symbols, "symbol", &Decoder::symbol));
    --depth_;
    return {};
  }

  Status value(const fb::Value& v, PlanValue& out) {
    BRISK_TRY(text(v.name(), out.name));
    BRISK_TRY(enumerator(v.kind(), PlanValue::Kind::kView, "kind", out.kind));
    BRISK_TRY(dtype(v.dtype(), out.dtype));
    out.ranked = v.ranked();
    out.weight = v.weight();
    out.view_of = v.view_of();
    auto rank = v.shape() ? v.shape()->size() : 0;
    if (rank > kMaxRank) return invalid("rank " + std::to_string(rank) + ", at most " + std::to_string(kMaxRank));
    for (uint32_t i = 0; i < rank; ++i) {
      uint32_t index = v.shape()->Get(i);
      if (index >= pool_.size())
        return invalid("dimension " + std::to_string(index) + " of " + std::to_string(pool_.size()));
      BRISK_TRY(take(dim_bytes(pool_[index])));
      out.shape.push_back(pool_[index]);
    }
    return {};
  }

  Status step(const fb::Step& s, PlanStep& out) {
    BRISK_TRY(text(s.name(), out.name));
    std::string op;
    BRISK_TRY(text(s.op(), op));
    auto id = op_from_name(op);
    if (!id) return invalid("operator '" + op + "' is not known to this brisk");
    out.op = *id;
    if (s.attrs()) {
      BRISK_TRY(take(s.attrs()->size() * 4));
      if (!decode({reinterpret_cast<const char*>(s.attrs()->data()), s.attrs()->size()}, out.attrs))
        return invalid(op + ": attributes are malformed");
    }
    BRISK_TRY(text(s.kernel(), out.kernel));
    out.kernel_version = s.kernel_version();
    BRISK_TRY(numbers(s.inputs(), out.inputs));
    BRISK_TRY(numbers(s.outputs(), out.outputs));
    out.captures = s.captures();
    out.dynamic = s.dynamic();
    return each(s.blocks(), out.blocks, "block", &Decoder::plan);
  }

  Status state(const fb::State& s, PlanState& out) {
    BRISK_TRY(text(s.name(), out.name));
    BRISK_TRY(enumerator(s.kind(), PlanState::Kind::kSlots, "kind", out.kind));
    BRISK_TRY(dtype(s.dtype(), out.dtype));
    out.value = s.value();
    out.kv_heads = s.kv_heads();
    out.head_dim = s.head_dim();
    out.width = s.width();
    return {};
  }

  Status symbol(const fb::Symbol& s, PlanSymbol& out) {
    BRISK_TRY(text(s.name(), out.name));
    out.min = s.min();
    out.opt = s.opt();
    out.max = s.max();
    return {};
  }

  std::span<const std::byte> weight_section_;
  EngineContent& out_;
  int64_t budget_;
  size_t dims_ = 0, dim_text_ = 0;
  int depth_ = 0;
  std::vector<Dim> pool_;
};

}  // namespace

Status decode_metadata(std::span<const std::byte> metadata, std::span<const std::byte> weight_section, EngineContent& out) {
  const auto* data = reinterpret_cast<const uint8_t*>(metadata.data());
  // A block adds two levels of tables; the rest of the schema is shallower than ten.
  flatbuffers::Verifier verifier(data, metadata.size(), 2 * kMaxBlockDepth + 12, kMaxTables);
  if (!fb::VerifyEngineBuffer(verifier)) return invalid("metadata is malformed");
  return Decoder(metadata.size(), weight_section, out).engine(*fb::GetEngine(data));
}

}  // namespace brisk
