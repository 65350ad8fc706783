#include "api/compare.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "api/compile_file.h"
#include "compiler/load_model.h"
#include "import/onnx/cut.h"
#include "runtime/executor.h"
#include "tensor/constant_ops.h"
#include "tensor/npy.h"

namespace brisk {
namespace {

using Values = std::map<std::string, ConstantPtr>;

double default_tolerance(const std::string& precision) {
  if (precision == "fp16") return 1e-2;
  if (precision == "bf16") return 5e-2;
  if (precision == "int8" || precision == "int8w") return 0.1;
  if (precision == "int4w") return 0.3;
  return 1e-4;
}

ConstantPtr copy_of(const TensorView& v) {
  auto c = std::make_shared<Constant>();
  c->dtype = v.dtype;
  c->shape = v.shape;
  auto* p = static_cast<const std::byte*>(v.data);
  c->data = Buffer::of(std::vector<std::byte>(p, p + v.bytes()));
  return c;
}

// One way to run a model: compiled for a backend, its steps' results looked at one by one.
class Run {
 public:
  static Result<std::unique_ptr<Run>> create(const std::string& model, const BuildConfig& config) {
    std::unique_ptr<Run> r(new Run);
    BRISK_ASSIGN(r->backend_, BackendSet::create(config.device, config.threads));
    BRISK_ASSIGN(auto content, compile_file(model, config, *r->backend_));
    if (!content.functions.count("main")) return invalid(model + ": a generative model; compare looks at functions of tensors");
    BRISK_ASSIGN(r->engine_, LoadedEngine::create(std::make_shared<EngineContent>(std::move(content)), r->backend_->device(), r->backend_->registry()));
    BRISK_ASSIGN(r->executor_, Executor::create(r->engine_, "main", r->backend_->context()));
    return r;
  }

  const Plan& plan() const { return executor_->plan(); }
  const PlanValue& value(int32_t v) const { return plan().values[static_cast<size_t>(v)]; }

  // look(step, name of the value, the value) for every result of an outermost step.
  using Look = std::function<Status(const PlanStep&, const std::string&, const TensorView&)>;
  Status run(const Values& inputs, const Look& look) {
    std::vector<Dims> shapes;
    std::vector<TensorView> views;
    for (int32_t v : plan().inputs) {
      auto it = inputs.find(value(v).name);
      if (it == inputs.end()) return invalid("input '" + value(v).name + "' is missing");
      shapes.push_back(it->second->shape);
      views.push_back(it->second->view());
    }
    BRISK_TRY(executor_->bind(shapes));
    const PlanStep* first = plan().steps.data();
    executor_->set_step_hook([&, first](const PlanStep& s, std::span<const TensorView>, std::span<const TensorView> out) -> Status {
      if (&s < first || &s >= first + plan().steps.size()) return {};  // of a block
      BRISK_TRY(backend_->device()->synchronize());
      for (size_t k = 0; k < out.size(); ++k)
        if (s.outputs[k] >= 0) BRISK_TRY(look(s, value(s.outputs[k]).name, out[k]));
      return {};
    });
    BRISK_TRY(executor_->run(views));
    return backend_->device()->synchronize();
  }

 private:
  Run() = default;
  std::shared_ptr<BackendSet> backend_;
  std::shared_ptr<const LoadedEngine> engine_;
  std::unique_ptr<Executor> executor_;
};

// Seeded inputs: floats in [-1, 1), integers and bools 1, every symbol at its usual size.
Values make_inputs(const Plan& plan) {
  Values out;
  uint64_t state = 1;
  for (int32_t v : plan.inputs) {
    const PlanValue& p = plan.values[static_cast<size_t>(v)];
    Dims shape;
    auto size = [&](const std::string& name) -> std::optional<int64_t> {
      for (const PlanSymbol& s : plan.symbols)
        if (s.name == name) return std::max<int64_t>(s.opt, 1);
      return 1;
    };
    for (const Dim& d : p.shape) shape.push(std::max<int64_t>(d.evaluate(size).value_or(1), 0));
    auto c = std::make_shared<Constant>();
    c->dtype = p.dtype;
    c->shape = shape;
    std::vector<std::byte> bytes(static_cast<size_t>(dtype_bytes(p.dtype, shape.count())));
    for (int64_t i = 0; i < shape.count(); ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      float x = static_cast<float>(state >> 40) / 8388608.0f - 1.0f;
      if (p.dtype == DType::kF64) reinterpret_cast<double*>(bytes.data())[i] = static_cast<double>(x);
      else if (p.dtype == DType::kI64 || p.dtype == DType::kU64) reinterpret_cast<int64_t*>(bytes.data())[i] = 1;
      else store_float(bytes.data(), p.dtype, i, is_integer(p.dtype) || p.dtype == DType::kBool ? 1.0f : x);
    }
    c->data = Buffer::of(std::move(bytes));
    out[p.name] = std::move(c);
  }
  return out;
}

double element(const TensorView& v, int64_t i) {
  if (v.dtype == DType::kF64) return v.as<double>()[i];
  if (v.dtype == DType::kI64 || v.dtype == DType::kU64) return static_cast<double>(v.as<int64_t>()[i]);
  return static_cast<double>(load_float(v.data, v.dtype, i));
}

// The largest difference over the largest value of `want`; nullopt where the shapes differ.
std::optional<double> difference(const TensorView& have, const TensorView& want) {
  if (!(have.shape == want.shape)) return std::nullopt;
  double far = 0, largest = 0;
  for (int64_t i = 0, n = have.shape.count(); i < n; ++i) {
    double a = element(have, i), b = element(want, i);
    if (std::isfinite(b)) largest = std::max(largest, std::fabs(b));
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    double d = std::fabs(a - b);
    far = std::max(far, std::isnan(d) ? INFINITY : d);
  }
  return far == 0 ? 0 : far / std::max(largest, 1e-30);
}

BuildConfig reference_config(const CompareOptions& o) {
  BuildConfig c;
  c.device = "ref";
  c.precision = "fp32";
  c.threads = o.build.threads;
  c.generative = false;
  for (const Pass& p : pipeline()) c.disabled_passes.push_back(p.name);
  return c;
}

Result<Values> named_values(const std::string& path) {
  Values out;
  BRISK_ASSIGN(auto arrays, read_npz(path));
  for (auto& [name, c] : arrays) out[name.starts_with("out:") || name.starts_with("in:") ? name.substr(name.find(':') + 1) : name] = c;
  return out;
}

class Comparison {
 public:
  Comparison(const std::string& model, const CompareOptions& o) : model_(model), o_(o) {
    report_.tolerance = o.tolerance > 0 ? o.tolerance : default_tolerance(o.build.precision);
  }

  Result<CompareReport> run() {
    build_ = o_.build;
    build_.generative = false;  // a decoder is looked at as the function it is in the file
    BRISK_ASSIGN(auto tested, Run::create(model_, build_));
    inputs_ = make_inputs(tested->plan());
    if (!o_.inputs.empty()) {
      BRISK_ASSIGN(inputs_, named_values(o_.inputs));
    }
    if (!o_.stored.empty()) {
      BRISK_ASSIGN(reference_, named_values(o_.stored));
    } else {
      BRISK_ASSIGN(auto reference, Run::create(model_, reference_config(o_)));
      BRISK_TRY(reference->run(inputs_, [&](const PlanStep&, const std::string& name, const TensorView& v) -> Status {
        reference_[name] = copy_of(v);
        return {};
      }));
    }
    BRISK_TRY(tested->run(inputs_, [&](const PlanStep& s, const std::string& name, const TensorView& v) -> Status {
      auto it = reference_.find(name);
      auto far = it == reference_.end() ? std::nullopt : difference(v, it->second->view());
      if (!far) {
        ++report_.unmatched;
        return {};
      }
      report_.layers.push_back({name, s.name, op_name(s.op), *far, *far <= report_.tolerance});
      if (report_.first_wrong < 0 && !report_.layers.back().right) report_.first_wrong = static_cast<int64_t>(report_.layers.size()) - 1;
      return {};
    }));
    if (report_.first_wrong >= 0 && !o_.reduce.empty()) BRISK_TRY(reduce());
    return std::move(report_);
  }

 private:
  // Does the part that was written show a wrong value, given what the reference has for its inputs?
  Result<bool> shows(const Values& inputs, const std::string& name) {
    BRISK_ASSIGN(auto part, Run::create(o_.reduce, build_));
    double worst = 0;
    BRISK_TRY(part->run(inputs, [&](const PlanStep&, const std::string& value, const TensorView& v) -> Status {
      if (value == name) worst = difference(v, reference_.at(name)->view()).value_or(0);
      return {};
    }));
    return worst > report_.tolerance;
  }

  // Twice as deep each time until the part shows it, then the least depth in between.
  Status reduce() {
    const std::string name = report_.layers[static_cast<size_t>(report_.first_wrong)].value;
    CutPoints points;
    Values known = reference_;
    for (auto& [input, c] : inputs_) known[input] = c;
    for (auto& [value, c] : known)
      if (value != name) points[value] = {c->dtype, c->shape};
    auto attempt = [&](int64_t depth) -> Result<std::pair<bool, Cut>> {
      BRISK_ASSIGN(Cut cut, cut_onnx(model_, name, depth, points, o_.reduce));
      Values given;
      for (const std::string& input : cut.inputs) given[input] = known.at(input);
      BRISK_ASSIGN(bool shown, shows(given, name));
      if (shown) {
        Values kept = given;
        kept["out:" + name] = reference_.at(name);
        BRISK_TRY(write_npz(o_.reduce + ".npz", kept));
        report_.reduced_nodes = static_cast<int64_t>(cut.nodes);
      }
      return std::pair(shown, cut);
    };
    int64_t depth = 1, last = 0;
    for (;; last = depth, depth *= 2) {
      BRISK_ASSIGN(auto tried, attempt(depth));
      if (tried.first) break;
      if (tried.second.whole) return invalid("the part that leads to '" + name + "' is right by itself: what is wrong comes with other results in the same build");
    }
    while (++last < depth) {
      BRISK_ASSIGN(auto tried, attempt(last));
      if (tried.first) return {};
    }
    BRISK_ASSIGN(auto kept, attempt(depth));
    return {};
  }

  const std::string& model_;
  const CompareOptions& o_;
  BuildConfig build_;
  Values inputs_, reference_;
  CompareReport report_;
};

}  // namespace

Result<CompareReport> compare_layers(const std::string& model, const CompareOptions& options) {
  return Comparison(model, options).run();
}

}  // namespace brisk
