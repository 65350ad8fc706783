#include "runtime/loaded_engine.h"

namespace brisk {

Result<std::shared_ptr<const LoadedEngine>> LoadedEngine::create(std::shared_ptr<const EngineContent> content,
                                                     std::shared_ptr<Device> device, const Registry& registry) {
  std::shared_ptr<LoadedEngine> e(new LoadedEngine);
  e->content_ = std::move(content);
  e->device_ = std::move(device);
  e->registry_ = &registry;
  for (const Weight& w : e->content_->weights) {
    BRISK_ASSIGN(const void* p, e->device_->adopt(w.bytes.bytes.data(), static_cast<int64_t>(w.bytes.bytes.size()), e->content_));
    e->weights_.emplace_back(const_cast<void*>(p), w.dtype, w.shape);
  }
  return std::shared_ptr<const LoadedEngine>(std::move(e));
}

LoadedEngine::~LoadedEngine() {
  for (size_t i = 0; i < weights_.size(); ++i)
    device_->release(weights_[i].data, static_cast<int64_t>(content_->weights[i].bytes.bytes.size()));
}

const Plan* LoadedEngine::function(const std::string& name) const {
  auto it = content_->functions.find(name);
  return it == content_->functions.end() ? nullptr : &it->second;
}

}  // namespace brisk
