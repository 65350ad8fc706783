#include "api/backends.h"

#include "backend/cpu/cpu.h"
#include "backend/cpu/thread_pool.h"
#include "backend/ref/far_device.h"
#include "backend/ref/ref.h"

namespace brisk {

BackendSet::~BackendSet() = default;

Result<std::shared_ptr<BackendSet>> BackendSet::create(const std::string& name, int threads) {
  if (threads < 0 || threads > 1024) return invalid("threads " + std::to_string(threads) + " outside [0, 1024]");
  std::shared_ptr<BackendSet> set(new BackendSet);
  // The reference kernels are there for every operator; faster ones are preferred by priority.
  if (name == "cpu") {
    auto pool = std::make_shared<cpu::ThreadPool>(threads);
    set->threads_ = pool->size();
    set->context_.backend = pool.get();
    set->pool_ = std::move(pool);
    set->device_ = cpu::make_device();
    cpu::add_kernels(set->registry_);
  } else if (name == "ref") {
    set->device_ = ref::make_device();
  } else if (name == "far") {
    BRISK_ASSIGN(auto far, ref::make_far_device());
    set->device_ = std::move(far);
  } else {
    return invalid("device '" + name + "' is not one of cpu, ref, far");
  }
  ref::add_kernels(set->registry_);
  return set;
}

}  // namespace brisk
