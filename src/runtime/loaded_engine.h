// An engine made ready on a device: plans resolved to kernels, weights where kernels can read them. Immutable and shared
// between executors and threads.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "engine/plan.h"
#include "kernel/kernel.h"
#include "tensor/device.h"

namespace brisk {

class LoadedEngine {
 public:
  // `registry` must outlive the engine. Fails if a step's kernel is unknown or needs instructions the host lacks.
  static Result<std::shared_ptr<const LoadedEngine>> create(std::shared_ptr<const EngineContent> content,
                                                      std::shared_ptr<Device> device, const Registry& registry);

  ~LoadedEngine();

  const EngineContent& content() const { return *content_; }
  const Plan* function(const std::string& name) const;
  Device& device() const { return *device_; }
  const Registry& registry() const { return *registry_; }
  // Logical dtype and shape, device address of the packed bytes.
  const TensorView& weight(int32_t index) const { return weights_[static_cast<size_t>(index)]; }

 private:
  LoadedEngine() = default;
  std::shared_ptr<const EngineContent> content_;
  std::shared_ptr<Device> device_;
  const Registry* registry_ = nullptr;
  std::vector<TensorView> weights_;
};

}  // namespace brisk
