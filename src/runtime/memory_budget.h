// How much memory an executor may hold. Sizes that come from a model's data are granted here before anything is allocated:
// a lazily populated mapping of any size would succeed and end the process later.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>

#include "base/checked.h"
#include "brisk/result.h"
#include "tensor/device.h"

namespace brisk {

class MemoryBudget {
 public:
  MemoryBudget(Device& device, int64_t limit) : device_(device), limit_(limit) {}

  bool has_room(int64_t bytes) const { return bytes >= 0 && bytes <= limit_ && charged(bytes) <= limit_ - used_; }
  // kEnvironment when it does not fit, with what was asked for, what is in use and the limit.
  Result<void*> allocate(int64_t bytes) {
    BRISK_TRY(check(bytes));
    BRISK_ASSIGN(void* p, device_.allocate(bytes));
    used_ += charged(bytes);
    return p;
  }
  void deallocate(void* p, int64_t bytes) {
    if (!p) return;
    device_.deallocate(p, bytes);
    used_ -= charged(bytes);
  }
  Status check(int64_t bytes) const {
    if (has_room(bytes)) return {};
    return environment("needs " + std::to_string(bytes) + " bytes of memory; of the " + std::to_string(limit_) +
                       " allowed (by --memory, or what was available) " + std::to_string(used_) + " are in use");
  }

 private:
  static int64_t charged(int64_t bytes) { return align_up(std::max<int64_t>(bytes, 1), 4096); }  // as devices hand it out
  Device& device_;
  const int64_t limit_;
  int64_t used_ = 0;
};

}  // namespace brisk
