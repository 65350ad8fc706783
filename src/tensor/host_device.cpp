#include "tensor/host_device.h"

#include <sys/mman.h>

#include <cstring>

#include "base/checked.h"
#include "base/memory.h"

namespace brisk {

namespace {
int64_t pages(int64_t bytes) { return align_up(bytes > 0 ? bytes : 1, 4096); }
}  // namespace

// Anonymous mappings: zeroed, page aligned, given back to the system on release, and populated only when touched.
Result<void*> HostDevice::allocate(int64_t bytes) {
  void* p = bytes < 0 ? MAP_FAILED
                      : ::mmap(nullptr, static_cast<size_t>(pages(bytes)), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return environment("out of memory: " + std::to_string(bytes) + " bytes");
  if (bytes >= (4 << 20)) ::madvise(p, static_cast<size_t>(pages(bytes)), MADV_HUGEPAGE);
  return p;
}

void HostDevice::deallocate(void* p, int64_t bytes) {
  if (p) ::munmap(p, static_cast<size_t>(pages(bytes)));
}

int64_t HostDevice::available_bytes() const { return available_memory(); }

Result<const void*> HostDevice::adopt(const void* host, int64_t, std::shared_ptr<const void> owner) {
  adopted_.emplace(host, std::move(owner));
  return host;
}

void HostDevice::release(const void* adopted, int64_t) {
  if (auto it = adopted_.find(adopted); it != adopted_.end()) adopted_.erase(it);
}

void HostDevice::upload(void* device, const void* host, int64_t bytes) {
  if (bytes > 0) std::memcpy(device, host, static_cast<size_t>(bytes));
}
void HostDevice::download(void* host, const void* device, int64_t bytes) {
  if (bytes > 0) std::memcpy(host, device, static_cast<size_t>(bytes));
}
void HostDevice::fill_zero(void* device, int64_t bytes) {
  if (bytes > 0) std::memset(device, 0, static_cast<size_t>(bytes));
}

void HostDevice::submit(std::function<Status()> work) {
  if (!failed_.ok()) return;
  if (auto s = work(); !s.ok()) failed_ = std::move(s);
}

Status HostDevice::synchronize() { return std::exchange(failed_, Status()); }

}  // namespace brisk
