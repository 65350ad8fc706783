// Layer by layer: what a build computes beside what the reference kernels compute from the model as it is.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "brisk/builder.h"
#include "tensor/tensor.h"

namespace brisk {

struct CompareOptions {
  BuildConfig build;           // device and precision of what is looked at; the reference is fp32, without passes
  std::string inputs, stored;  // .npz files: inputs (none: seeded); values to compare with instead of the reference's
  double tolerance = 0;        // of the largest value of a layer; 0: by precision
  std::string reduce;          // where the smallest failing part goes, with its inputs beside it (.npz); "": nowhere
};

struct LayerDifference {
  std::string value, step, op;  // the value that both know, the step of the build that makes it
  double difference = 0;        // largest difference over the reference's largest value
  bool right = true;
};

struct CompareReport {
  double tolerance = 0;
  std::vector<LayerDifference> layers;  // in order of execution
  int64_t unmatched = 0;                // results of steps that the reference has no value for
  int64_t first_wrong = -1;             // index into layers
  int64_t reduced_nodes = 0;            // of the part that was written
};

// kInvalid: a generative model, inputs that are missing. Values inside If and Loop are not looked at.
Result<CompareReport> compare_layers(const std::string& model, const CompareOptions& options);

}  // namespace brisk
