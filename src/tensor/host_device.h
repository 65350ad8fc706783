// A device whose memory is the host's: work runs at once on the calling thread. Backends that compute on the CPU share it.
#pragma once
#include <map>

#include "tensor/device.h"

namespace brisk {

class HostDevice : public Device {
 public:
  explicit HostDevice(std::string name) : name_(std::move(name)) {}
  std::string name() const override { return name_; }
  Result<void*> allocate(int64_t bytes) override;
  void deallocate(void* p, int64_t bytes) override;
  int64_t available_bytes() const override;
  Result<const void*> adopt(const void* host, int64_t bytes, std::shared_ptr<const void> owner) override;
  void release(const void* adopted, int64_t bytes) override;
  void upload(void* device, const void* host, int64_t bytes) override;
  void download(void* host, const void* device, int64_t bytes) override;
  void fill_zero(void* device, int64_t bytes) override;
  void submit(std::function<Status()> work) override;
  Status synchronize() override;
  uint64_t record() override { return 0; }
  Status wait(uint64_t) override { return synchronize(); }

 private:
  std::string name_;
  Status failed_;  // of the first failed work item since the last synchronize()
  std::multimap<const void*, std::shared_ptr<const void>> adopted_;
};

}  // namespace brisk
