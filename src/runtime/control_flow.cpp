// If, Loop and Scan: the executor's own steps, running a block's frame.
#include "runtime/frame.h"

namespace brisk {
namespace {

// A block's result becomes the outer step's: copied, since the block's memory is reused at its next run.
Status take_result(Frame& frame, int32_t to, const TensorView& from) {
  if (to < 0) return {};
  BRISK_TRY(frame.allocate_dynamic(to, from.dtype, from.shape));
  Device& d = frame.device();
  void* target = frame.value(to).data;
  d.submit([&d, target, source = from.data, bytes = from.bytes()] {
    if (bytes) std::memcpy(d.resolve(target), d.resolve(source), static_cast<size_t>(bytes));
    return Status();
  });
  return {};
}

Status run_if(Frame& frame, size_t index, const PlanStep& step) {
  std::vector<std::byte> storage;
  BRISK_ASSIGN(auto condition, frame.host_view(frame.value(step.inputs[0]), storage));
  if (condition.dtype != DType::kBool || condition.count() != 1)
    return invalid("the condition is " + std::string(dtype_name(condition.dtype)) + to_string(condition.shape) + ", wanted one bool");
  Frame& block = frame.block(index, load_int(condition.data, DType::kBool, 0) ? 0 : 1);
  std::vector<TensorView> captured;
  for (size_t i = step.inputs.size() - static_cast<size_t>(step.captures); i < step.inputs.size(); ++i)
    captured.push_back(step.inputs[i] < 0 ? TensorView() : frame.value(step.inputs[i]));
  BRISK_TRY(block.run(captured));
  auto results = block.outputs();
  for (size_t i = 0; i < step.outputs.size(); ++i) BRISK_TRY(take_result(frame, step.outputs[i], results[i]));
  return {};
}

}  // namespace

Status run_control_flow(Frame& frame, size_t index, const PlanStep& step) {
  std::string_view op = op_name(step.op);
  if (op == "If") return run_if(frame, index, step);
  return internal("no control flow for " + std::string(op));
}

}  // namespace brisk
