// Calls of an engine's (or an in-memory model's) function on tensors.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "brisk/result.h"
#include "brisk/tensor.h"

namespace brisk {

struct ExecutionOptions {
  std::string device = "cpu";  // "cpu", "ref" or "far" (reference kernels behind an address space of their own)
  std::string precision;       // for models that are not engines; empty: fp32
  int threads = 0;             // 0: all the process may use
  int64_t memory_bytes = 0;    // cap on temporary values and results; 0: what is available. Beyond it run() fails (kEnvironment)
};

// One thread at a time may call a context; contexts of one engine file share its weight pages.
class ExecutionContext {
 public:
  // `path`: an .engine file, or a model that is compiled in memory first.
  static Result<std::unique_ptr<ExecutionContext>> open(const std::string& path, const ExecutionOptions& options = {});
  ~ExecutionContext();

  struct Port {
    std::string name, dtype;
    std::vector<std::string> shape;  // numbers or symbol expressions
  };
  std::vector<Port> inputs() const;
  std::vector<Port> outputs() const;

  // Inputs by name; all must be given, with the declared dtype, a shape inside the profile. Outputs in declared order.
  Result<std::vector<std::pair<std::string, Tensor>>> run(const std::map<std::string, Tensor>& inputs);

  // Median time of each step over `calls` calls, in order of execution; those of If and Loop bodies by themselves.
  struct StepTime {
    std::string name, op, kernel;
    double ms = 0;
  };
  Result<std::vector<StepTime>> profile(const std::map<std::string, Tensor>& inputs, int calls);

 private:
  struct State;
  explicit ExecutionContext(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace brisk
