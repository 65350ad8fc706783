// The one place where backends are picked: kernels, device and what their kernels need while running.
#pragma once
#include <memory>
#include <string>

#include "kernel/kernel.h"
#include "tensor/device.h"

namespace brisk {

// Keep alive as long as anything made from it. `name` as in BuildConfig::device or "far".
class BackendSet {
 public:
  static Result<std::shared_ptr<BackendSet>> create(const std::string& name, int threads);
  ~BackendSet();

  const Registry& registry() const { return registry_; }
  const std::shared_ptr<Device>& device() const { return device_; }
  KernelContext context() const { return context_; }
  int threads() const { return threads_; }

 private:
  BackendSet() = default;
  Registry registry_;
  std::shared_ptr<Device> device_;
  KernelContext context_;
  std::shared_ptr<void> pool_;
  int threads_ = 1;
};

}  // namespace brisk
