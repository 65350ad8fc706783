// Runs a graph on given inputs with the runtime: constant folding, calibration, differential checks.
#pragma once
#include "ir/graph.h"
#include "kernel/kernel.h"
#include "tensor/device.h"

namespace brisk {

// The registry and device must outlive the evaluator; the device must be host-accessible.
// With passes, graphs go through the pipeline first: worth it for a layer, not for a node.
std::unique_ptr<Evaluator> make_evaluator(const Registry& registry, std::shared_ptr<Device> device, KernelContext context,
                                          bool with_passes = false);

}  // namespace brisk
