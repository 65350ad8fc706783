// The device a plan runs on, seen from host code above the backends.
//
// Work is submitted in order to one stream per Device object and may run later, on another thread or another machine's
// memory; the caller must not touch device memory itself except through upload/download/copy. A CPU device runs work at
// once on the calling thread. The far test device (backend/ref) has its own address space and an asynchronous queue and
// so keeps callers honest. One host thread at a time may use a Device object.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "brisk/result.h"

namespace brisk {

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;              // "cpu", "ref", "far"
  virtual bool host_accessible() const { return true; }

  // Memory, 64-byte aligned at least; zero-initialised. An error, never an abort, when there is not enough.
  virtual Result<void*> allocate(int64_t bytes) = 0;
  virtual void deallocate(void* p, int64_t bytes) = 0;
  // What can still be allocated without harm to others, as far as is known.
  virtual int64_t available_bytes() const = 0;
  // Makes read-only host memory (a mapped weight section) visible to kernels: CPU devices return the address itself,
  // others copy. `owner` is kept alive until release() of what adopt() gave.
  virtual Result<const void*> adopt(const void* host, int64_t bytes, std::shared_ptr<const void> owner) = 0;
  virtual void release(const void* adopted, int64_t bytes) = 0;

  // Stream-ordered. upload() has taken the bytes when it returns; download() fills `host` by the next synchronize().
  virtual void upload(void* device, const void* host, int64_t bytes) = 0;
  virtual void download(void* host, const void* device, int64_t bytes) = 0;
  virtual void fill_zero(void* device, int64_t bytes) = 0;

  // Runs `work` in stream order. Inside it addresses given out by this device must pass through resolve() once
  // (identity on the CPU); kernels receive resolved addresses. A failed work item makes the next synchronize() fail.
  virtual void submit(std::function<Status()> work) = 0;
  virtual void* resolve(void* device_address) const { return device_address; }

  virtual Status synchronize() = 0;
  // A mark in the stream: wait(mark) returns when all work submitted before it is done, without draining what follows.
  virtual uint64_t record() = 0;
  virtual Status wait(uint64_t mark) = 0;
};

}  // namespace brisk
