// Plans changed as plans: the input is a list of changes, five bytes each, to a sound engine, which is then written, read
// and run. This gets further than changed bytes of a file do.
#include "fuzz/fuzz.h"
#include "fuzz/run_engine.h"

namespace brisk::fuzz {
namespace {

class Changes {
 public:
  Changes(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  void apply(EngineContent& c) {
    while (at_ + 5 <= size_) {
      const uint8_t* b = data_ + at_;
      at_ += 5;
      auto plan = std::next(c.functions.begin(), (b[0] >> 5) % 3);
      change(c, plan->second, b[0] & 0x1f, static_cast<size_t>(b[1]) | static_cast<size_t>(b[2]) << 8, static_cast<int8_t>(b[3]), b[4]);
    }
  }

 private:
  template <class V> static auto* pick(V& list, size_t i) { return list.empty() ? nullptr : &list[i % list.size()]; }

  static Dim dim(int8_t v, uint8_t form) {
    const char* names[] = {"T", "S", "L", "B", "n", "m", "?0", "none"};
    Dim s = Dim::symbol(names[form & 7]);
    switch (form >> 3 & 7) {
      case 0: return v;
      case 1: return s + Dim(v);
      case 2: return s * Dim(v);
      case 3: return Dim::floor_div(s, v);
      case 4: return Dim::max(s, v);
      case 5: return Dim::mod(s, v);
      case 6: return Dim(int64_t{1} << (v & 63));
      default: return s;
    }
  }

  static void change(EngineContent& c, Plan& p, int what, size_t i, int8_t v, uint8_t extra) {
    if (p.steps.empty() || p.values.empty()) return;
    PlanValue* value = pick(p.values, i);
    PlanStep* step = pick(p.steps, i);
    Weight* weight = pick(c.weights, i);
    switch (what % 21) {
      case 0: if (int32_t* x = pick(step->inputs, extra)) *x = v; break;
      case 1: if (int32_t* x = pick(step->outputs, extra)) *x = v; break;
      case 2: if (int32_t* x = pick(step->inputs, extra)) *x += v; break;
      case 3: value->dtype = static_cast<DType>(extra % (kDTypeCount - 1)); break;
      case 4: if (Dim* d = pick(value->shape, i >> 8)) *d = dim(v, extra); break;
      case 5: value->shape.push_back(dim(v, extra)); break;
      case 6: if (!value->shape.empty()) value->shape.pop_back(); break;
      case 7: value->kind = static_cast<PlanValue::Kind>(extra % 6); break;
      case 8: value->view_of = v; break;
      case 9: value->weight = v; break;
      case 10: {
        step->op = static_cast<OpId>((extra + 256 * (v & 1)) % static_cast<int>(OpId::kCount));
        step->kernel = op_def(step->op).is(kView) ? "" : std::string("ref.") + op_name(step->op);
        break;
      }
      case 11: step->inputs.push_back(v); break;
      case 12: if (!step->inputs.empty()) step->inputs.pop_back(); break;
      case 13: step->dynamic = extra & 1; break;
      case 14: change_attrs(step->attrs, v, extra); break;
      case 15: if (int64_t* d = weight->shape.rank ? &weight->shape[extra % weight->shape.rank] : nullptr) *d = v; break;
      case 16: weight->dtype = static_cast<DType>(extra % (kDTypeCount - 1)); break;
      case 17: weight->bytes.bytes = weight->bytes.bytes.first(std::min<size_t>(weight->bytes.bytes.size(), extra)); break;
      case 18: if (int32_t* x = pick(p.outputs, extra)) *x = v; break;
      case 19:
        if (!step->blocks.empty() && i < 1 << 14) change(c, step->blocks[extra & 1 ? step->blocks.size() - 1 : 0], v & 0x1f, i << 3 | extra >> 5, v, extra);
        break;
      default:
        if (PlanState* s = pick(p.states, i)) (extra & 1 ? s->kv_heads : extra & 2 ? s->head_dim : s->width) = v;
    }
  }

  static void change_attrs(Attrs& attrs, int8_t v, uint8_t which) {
    std::visit([&](auto& a) {
      int i = 0;
      std::decay_t<decltype(a)>::fields(a, [&](const char*, auto& field) {
        using F = std::decay_t<decltype(field)>;
        if (i++ != which % 8) return;
        if constexpr (std::is_arithmetic_v<F>) field = static_cast<F>(v);
      });
    }, attrs);
  }

  const uint8_t* data_;
  size_t size_, at_ = 0;
};

}  // namespace

std::vector<std::string> seeds() {
  const std::string nothing("\x0d\x00\x00\x00\x00", 5);  // a step that is not dynamic stays so
  return {nothing, nothing + nothing + nothing + nothing};
}

bool parse(const uint8_t* data, size_t size) {
  static const EngineContent sound = reference_sample();
  EngineContent content = sound;
  Changes(data, std::min<size_t>(size, 200)).apply(content);
  return read_and_run(written(content));
}

}  // namespace brisk::fuzz
