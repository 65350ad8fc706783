// Kernels and weights of a whole engine, and the order in which everything is checked.
#include <algorithm>
#include <unordered_map>

#include "base/checked.h"
#include "engine/check.h"
#include "engine/step_problem.h"

namespace brisk {
namespace {

constexpr int64_t kMaxContext = INT32_MAX;

std::string joined(const std::vector<std::string>& list) {
  std::string out;
  for (auto& s : list) out += (out.empty() ? "" : ", ") + s;
  return out.empty() ? "none" : out;
}

Status check_weight(const Weight& w) {
  for (int64_t d : w.shape)
    if (d < 0 || d > (int64_t{1} << 40)) return invalid("shape " + to_string(w.shape));
  auto count = checked_count({w.shape.begin(), static_cast<size_t>(w.shape.rank)});
  // No encoding takes less than a bit for an element; so products of the dims cannot overflow in what follows.
  auto bytes = static_cast<int64_t>(w.bytes.bytes.size());
  if (!count || *count / 8 > bytes || (*count == 0 && *std::max_element(w.shape.begin(), w.shape.end()) > INT32_MAX))
    return invalid("shape " + to_string(w.shape) + " does not fit into " + std::to_string(bytes) + " bytes");
  const Encoding& e = w.encoding;
  if (!e.plain() && ((e.bits != 4 && e.bits != 8) || w.shape.rank == 0 || e.axis < -1 || e.axis >= w.shape.rank || e.group < 0))
    return invalid("encoding of " + std::to_string(e.bits) + " bits in groups of " + std::to_string(e.group) + " along axis " +
                   std::to_string(e.axis));
  if (!e.plain() && w.packing.empty()) return invalid("quantised, but not packed for a kernel");
  if (w.packing.empty() && bytes != dtype_bytes(w.dtype, *count))
    return invalid(std::to_string(bytes) + " bytes, " + std::string(dtype_name(w.dtype)) + to_string(w.shape) + " takes " +
                   std::to_string(dtype_bytes(w.dtype, *count)));
  return {};
}

class KernelCheck {
 public:
  KernelCheck(std::span<const Weight> weights, const Registry& registry) : weights_(weights), registry_(registry) {
    for (const KernelDesc& k : registry.all()) by_id_.emplace(k.id, &k);
  }

  Status plan(const Plan& p) {
    for (size_t i = 0; i < p.steps.size(); ++i) {
      const PlanStep& s = p.steps[i];
      if (auto r = s.kernel.empty() ? Status() : step(p, s); !r.ok()) return std::move(r).error().in(step_name(p, i));
      for (const Plan& b : s.blocks)
        if (auto r = plan(b); !r.ok()) return std::move(r).error().in(step_name(p, i) + ": block '" + b.name + "'");
    }
    return {};
  }

 private:
  Result<const KernelDesc*> find(const PlanStep& s) {
    auto it = by_id_.find(s.kernel);
    if (it == by_id_.end())
      return environment("needs kernel '" + s.kernel + "', which this brisk does not have; build the engine again with this brisk");
    const KernelDesc* k = it->second;
    if (k->version != s.kernel_version)
      return environment("made for version " + std::to_string(s.kernel_version) + " of kernel '" + s.kernel + "', this brisk has version " +
                         std::to_string(k->version) + "; build the engine again with this brisk");
    if (auto missing = registry_.missing_isa(*k); !missing.empty())
      return environment("kernel '" + s.kernel + "' needs " + joined(missing) + "; this machine has " + joined(registry_.isa()));
    if (k->op != s.op) return invalid("kernel '" + s.kernel + "' is one of " + op_name(k->op));
    return k;
  }

  Status step(const Plan& p, const PlanStep& s) {
    BRISK_ASSIGN(const KernelDesc* k, find(s));
    ProblemDesc problem = step_problem(weights_, p, s);
    if (k->accepts && !k->accepts(problem)) return invalid("kernel '" + s.kernel + "' does not compute " + signature(problem));
    for (size_t i = 0; i < s.inputs.size(); ++i) {
      if (s.inputs[i] < 0) continue;
      if (auto r = packing(p, s, *k, problem, i); !r.ok()) return std::move(r).error().in("operand " + std::to_string(i));
    }
    return overwriting(p, s, *k);
  }

  // A result on an operand's bytes: may this kernel write there?
  static Status overwriting(const Plan& p, const PlanStep& s, const KernelDesc& k) {
    if (!in_place(p, s)) return {};
    const PlanValue* root = &root_value(p, s.outputs[0]);
    for (size_t i = 0; i < s.inputs.size() && i < 32; ++i)
      if (s.inputs[i] >= 0 && &root_value(p, s.inputs[i]) == root && (k.in_place >> i & 1)) return {};
    return invalid("kernel '" + k.id + "' cannot write result '" + p.values[static_cast<size_t>(s.outputs[0])].name + "' over its operand");
  }

  // The operand's bytes must be in the form that this kernel reads, and all of them there.
  Status packing(const Plan& p, const PlanStep& s, const KernelDesc& k, const ProblemDesc& problem, size_t i) const {
    const PlanValue& r = root_value(p, s.inputs[i]);
    const Weight* w = r.kind == PlanValue::Kind::kWeight ? &weights_[static_cast<size_t>(r.weight)] : nullptr;
    std::string have = w ? w->packing : "", wanted;
    bool plain_wanted = true;
    for (const KernelDesc::Packing& option : k.packings) {
      if (option.operand != static_cast<int>(i) || !option.pack) continue;
      if (w && option.name == have) {
        int64_t bytes = option.bytes ? option.bytes(problem, problem.inputs[i]) : -1;
        if (bytes == static_cast<int64_t>(w->bytes.bytes.size())) return {};
        return invalid("weight '" + w->name + "' has " + std::to_string(w->bytes.bytes.size()) + " bytes, packing '" + have + "' takes " +
                       std::to_string(bytes));
      }
      plain_wanted = false;
      wanted += (wanted.empty() ? "'" : " or '") + option.name + "'";
    }
    if (plain_wanted && have.empty()) return {};
    return invalid((w ? "weight '" + w->name + "' is packed as '" + have + "'" : "'" + r.name + "' is no weight") + ", kernel '" + k.id +
                   "' reads " + (plain_wanted ? "plain elements" : wanted));
  }

  static std::string signature(const ProblemDesc& problem) {
    std::string out;
    for (const OperandDesc& d : problem.inputs)
      out += (out.empty() ? "(" : ", ") + (d.present ? to_string(d.type) + (d.encoding.plain() ? "" : " " + to_string(d.encoding)) : "-");
    return out + ")";
  }

  std::span<const Weight> weights_;
  const Registry& registry_;
  std::unordered_map<std::string_view, const KernelDesc*> by_id_;
};

Status check_required_isa(const EngineContent& content, const Registry& registry) {
  std::vector<std::string> missing;
  for (auto& f : content.required_isa)
    if (std::find(registry.isa().begin(), registry.isa().end(), f) == registry.isa().end()) missing.push_back(f);
  if (missing.empty()) return {};
  return environment("made for a machine with " + joined(content.required_isa) + "; this one lacks " + joined(missing) + " (it has " +
                     joined(registry.isa()) + "); build the engine again on this machine");
}

}  // namespace

Status check_content(EngineContent& content, const Registry* registry) {
  if (registry) BRISK_TRY(check_required_isa(content, *registry));
  if (content.max_context < 0 || content.max_context > kMaxContext)
    return invalid("max_context " + std::to_string(content.max_context) + ", allowed 0 to " + std::to_string(kMaxContext));
  for (size_t i = 0; i < content.weights.size(); ++i)
    if (auto s = check_weight(content.weights[i]); !s.ok())
      return std::move(s).error().in("weight " + std::to_string(i) + " '" + content.weights[i].name + "'");
  for (auto& [name, plan] : content.functions) {
    auto check = [&]() -> Status {
      BRISK_TRY(check_structure(plan, content.weights));
      if (name == "step") BRISK_TRY(check_step_signature(plan));
      BRISK_TRY(prove_shapes(plan, content.weights));
      return registry ? KernelCheck(content.weights, *registry).plan(plan) : Status();
    };
    if (auto s = check(); !s.ok()) return std::move(s).error().in("function '" + name + "'");
  }
  return {};
}

}  // namespace brisk
