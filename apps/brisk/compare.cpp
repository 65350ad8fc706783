// brisk compare MODEL
#include <cstdio>
#include <nlohmann/json.hpp>

#include "api/compare.h"
#include "base/log.h"
#include "command.h"

namespace brisk::cli {
namespace {

struct Options {
  std::string model;
  CompareOptions compare;
  bool all = false, json = false;
};

void print(const Options& o, const CompareReport& r) {
  if (o.json) {
    nlohmann::ordered_json j = {{"tolerance", r.tolerance}, {"layers", nlohmann::json::array()}, {"unmatched", r.unmatched}};
    for (auto& l : r.layers) j["layers"].push_back({{"value", l.value}, {"step", l.step}, {"op", l.op}, {"difference", l.difference}, {"right", l.right}});
    j["first_wrong"] = r.first_wrong < 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(r.layers[static_cast<size_t>(r.first_wrong)].value);
    std::printf("%s\n", j.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    return;
  }
  for (auto& l : r.layers)
    if (o.all || !l.right) std::printf("%s %.2e  %s  (%s '%s')\n", l.right ? "ok   " : "WRONG", l.difference, l.value.c_str(), l.op.c_str(), l.step.c_str());
  std::printf("%zu layers compared, %lld more have no counterpart; tolerance %.2g of a layer's largest value\n", r.layers.size(), static_cast<long long>(r.unmatched), r.tolerance);
}

Status compare(Options& o) {
  BRISK_ASSIGN(auto r, compare_layers(o.model, o.compare));
  print(o, r);
  if (r.first_wrong < 0) {
    if (r.layers.empty()) return invalid(o.model + ": no layer could be compared");
    return {};
  }
  const LayerDifference& l = r.layers[static_cast<size_t>(r.first_wrong)];
  std::string text = "the first layer out of tolerance is '" + l.value + "', made by '" + l.step + "' (" + l.op + ")";
  if (r.reduced_nodes)
    text += "; " + std::to_string(r.reduced_nodes) + " nodes that show it are in " + o.compare.reduce + ", their inputs and the right result in " + o.compare.reduce + ".npz";
  return Error{ErrorKind::kEnvironment, text};
}

}  // namespace

Run compare_command(CLI::App& app) {
  auto o = std::make_shared<Options>();
  o->compare.build.precision = "fp32";
  app.add_option("MODEL", o->model, "an .onnx file, or another model that is not generative")->required();
  app.add_option("--precision", o->compare.build.precision, "of the build that is looked at")
      ->check(CLI::IsMember({"fp32", "fp16", "bf16", "int8", "int8w", "int4w"}));
  app.add_option("--device", o->compare.build.device, "of that build")->check(CLI::IsMember({"cpu", "ref"}));
  app.add_option("--disable-pass", o->compare.build.disabled_passes, "leave a pass out of it; repeatable")->allow_extra_args(false);
  app.add_option("--inputs", o->compare.inputs, "inputs; default: seeded ones at the usual sizes")->type_name("FILE.npz");
  app.add_option("--stored", o->compare.stored, "values by name to compare with, instead of what the reference kernels give")->type_name("FILE.npz");
  app.add_option("--tolerance", o->compare.tolerance, "of a layer's largest value; 0: 1e-4, more for narrower precisions")->check(CLI::NonNegativeNumber);
  app.add_option("--reduce", o->compare.reduce, "write the fewest nodes that show the first wrong layer, and OUT.onnx.npz with their inputs")->type_name("OUT.onnx");
  app.add_flag("--all", o->all, "print the layers that are right, too");
  app.add_flag("--json", o->json, "one JSON object, with every layer");
  add_threads(app, o->compare.build.threads);
  add_log_level(app);
  return [o] { return compare(*o); };
}

}  // namespace brisk::cli
