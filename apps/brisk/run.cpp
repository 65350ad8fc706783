// brisk run MODEL_or_ENGINE --input name=a.npy ... --outputs o.npz
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "api/convert.h"
#include "brisk/execution_context.h"
#include "command.h"
#include "import/onnx/tensor_proto.h"
#include "tensor/npy.h"

namespace brisk::cli {
namespace {

struct Options {
  std::string model, npz, outputs, out_dir, compare;
  std::vector<std::string> inputs, pb;
  double rtol = 1e-4, atol = 1e-5;
  ExecutionOptions execution;
};

Result<std::map<std::string, Tensor>> read_inputs(const Options& o, const ExecutionContext& context) {
  std::map<std::string, Tensor> given;
  if (!o.npz.empty()) {
    BRISK_ASSIGN(auto arrays, read_npz(o.npz));
    for (auto& [name, c] : arrays) given[name] = to_tensor(*c);
  }
  for (auto& pair : o.inputs) {
    auto at = pair.find('=');
    if (at == std::string::npos) return invalid("--input '" + pair + "': wanted name=file.npy");
    BRISK_ASSIGN(auto c, read_npy(pair.substr(at + 1)));
    given[pair.substr(0, at)] = to_tensor(*c);
  }
  auto ports = context.inputs();
  // "--pb" before nothing at all comes as one empty name.
  const size_t files = o.pb.size() == 1 && o.pb[0].empty() ? 0 : o.pb.size();
  if (files > ports.size())
    return invalid(std::to_string(files) + " files after --pb, the model has " + std::to_string(ports.size()) + " inputs");
  for (size_t i = 0; i < files; ++i) {
    BRISK_ASSIGN(auto c, read_pb(o.pb[i]));
    if (c) given[ports[i].name] = to_tensor(*c);
  }
  return given;
}

using Named = std::vector<std::pair<std::string, Tensor>>;

// Elements beyond atol + rtol * |expected|, NaN equal to NaN; errors say where the first one is.
Status compare(const Named& results, const std::string& file, double rtol, double atol) {
  BRISK_ASSIGN(auto expected, read_npz(file));
  std::string wrong;
  for (auto& [name, t] : results) {
    auto it = expected.find(name);
    if (it == expected.end()) it = expected.find("out:" + name);
    if (it == expected.end()) return invalid(file + " has no array '" + name + "'");
    BRISK_ASSIGN(auto mine, to_constant(t));
    const Constant& e = *it->second;
    if (!(mine->shape == e.shape)) {
      wrong += "\n  " + name + ": shape " + to_string(mine->shape) + ", expected " + to_string(e.shape);
      continue;
    }
    int64_t bad = 0, first = -1;
    double largest = 0;
    for (int64_t i = 0; i < e.count(); ++i) {
      double x = static_cast<double>(load_float(mine->data.bytes.data(), mine->dtype, i));
      double y = static_cast<double>(load_float(e.data.bytes.data(), e.dtype, i));
      if ((std::isnan(x) && std::isnan(y)) || x == y) continue;
      double d = std::fabs(x - y);
      largest = std::max(largest, d);
      if (d <= atol + rtol * std::fabs(y)) continue;
      if (bad++ == 0) first = i;
    }
    std::fprintf(stderr, "%s %s: largest difference %.3g\n", name.c_str(), to_string(e.shape).c_str(), largest);
    if (bad) wrong += "\n  " + name + ": " + std::to_string(bad) + " of " + std::to_string(e.count()) + " elements differ, the first at index " + std::to_string(first);
  }
  if (!wrong.empty()) return Error{ErrorKind::kEnvironment, "outputs differ from " + file + ":" + wrong};
  return {};
}

Status run(const Options& o) {
  BRISK_ASSIGN(auto context, ExecutionContext::open(o.model, o.execution));
  BRISK_ASSIGN(auto given, read_inputs(o, *context));
  BRISK_ASSIGN(auto results, context->run(given));
  if (!o.outputs.empty()) {
    std::map<std::string, ConstantPtr> arrays;
    for (auto& [name, t] : results) {
      BRISK_ASSIGN(arrays[name], to_constant(t));
    }
    BRISK_TRY(write_npz(o.outputs, arrays));
  }
  if (!o.out_dir.empty()) {
    std::error_code failed;
    std::filesystem::create_directories(o.out_dir, failed);
    if (failed) return environment(o.out_dir + ": " + failed.message());
    for (size_t i = 0; i < results.size(); ++i) {
      BRISK_ASSIGN(auto c, to_constant(results[i].second));
      BRISK_TRY(write_pb(o.out_dir + "/output_" + std::to_string(i) + ".pb", *c, results[i].first));
    }
  }
  if (!o.compare.empty()) return compare(results, o.compare, o.rtol, o.atol);
  if (o.outputs.empty() && o.out_dir.empty())
    for (auto& [name, t] : results) std::printf("%s: %s%s\n", name.c_str(), t.dtype.c_str(), to_string(Dims(t.shape)).c_str());
  return {};
}

}  // namespace

Run run_command(CLI::App& app) {
  auto o = std::make_shared<Options>();
  app.add_option("MODEL", o->model, "a model or an engine file")->required();
  app.add_option("--input", o->inputs, "name=file.npy; repeatable")->allow_extra_args(false);
  app.add_option("--inputs", o->npz, "all inputs in one .npz");
  app.add_option("--pb", o->pb, "inputs in order as ONNX TensorProto files; an empty file is an absent optional input")->expected(0, -1);
  app.add_option("--outputs", o->outputs, "write results to this .npz");
  app.add_option("--out-dir", o->out_dir, "write results as output_0.pb, output_1.pb, ...")->type_name("DIR");
  app.add_option("--compare", o->compare, "compare results with this .npz; exit 1 where they differ");
  app.add_option("--rtol", o->rtol, "tolerance relative to the expected value")->check(CLI::NonNegativeNumber);
  app.add_option("--atol", o->atol, "absolute tolerance")->check(CLI::NonNegativeNumber);
  app.add_option("--device", o->execution.device, "where to run; far: reference kernels behind an address space of their own")
      ->check(CLI::IsMember({"cpu", "ref", "far"}));
  app.add_option("--precision", o->execution.precision, "of a model that is not an engine; default fp32")
      ->check(CLI::IsMember({"fp32", "fp16", "bf16", "int8", "int8w", "int4w"}));
  add_memory(app, o->execution.memory_bytes, "cap on temporary values and results, such as 2G; 0: what is free");
  add_threads(app, o->execution.threads);
  add_log_level(app);
  return [o] { return run(*o); };
}

}  // namespace brisk::cli
