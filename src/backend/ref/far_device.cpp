#include "backend/ref/far_device.h"

#include <sys/mman.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/checked.h"
#include "base/memory.h"

namespace brisk::ref {
namespace {

constexpr int64_t kReservation = int64_t{1} << 36;  // of address space, twice; memory only as it is touched

class FarDevice final : public Device {
 public:
  FarDevice(char* hidden, char* real, int delay_us) : hidden_(hidden), real_(real), delay_us_(delay_us) {
    free_[0] = kReservation;
    thread_ = std::thread([this] { serve(); });
  }

  ~FarDevice() override {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
    ::munmap(hidden_, kReservation);
    ::munmap(real_, kReservation);
  }

  std::string name() const override { return "far"; }
  bool host_accessible() const override { return false; }

  // First fit over the reservation.
  Result<void*> allocate(int64_t bytes) override {
    if (bytes < 0) return invalid("allocation of " + std::to_string(bytes) + " bytes");
    int64_t size = align_up(std::max<int64_t>(bytes, 1), 4096);
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      if (it->second < size) continue;
      int64_t at = it->first, left = it->second - size;
      free_.erase(it);
      if (left) free_[at + size] = left;
      void* p = hidden_ + at;
      fill_zero(p, size);
      return p;
    }
    return environment("out of far memory: " + std::to_string(bytes) + " bytes");
  }

  void deallocate(void* p, int64_t bytes) override {
    if (!p) return;
    (void)drain();
    int64_t at = static_cast<char*>(p) - hidden_, size = align_up(std::max<int64_t>(bytes, 1), 4096);
    auto next = free_.emplace(at, size).first;
    if (auto after = std::next(next); after != free_.end() && next->first + next->second == after->first) {
      next->second += after->second;
      free_.erase(after);
    }
    if (next != free_.begin())
      if (auto before = std::prev(next); before->first + before->second == next->first) {
        before->second += next->second;
        free_.erase(next);
      }
  }

  int64_t available_bytes() const override { return std::min(kReservation, available_memory()); }

  Result<const void*> adopt(const void* host, int64_t bytes, std::shared_ptr<const void>) override {
    BRISK_ASSIGN(void* p, allocate(bytes));
    upload(p, host, bytes);
    BRISK_TRY(synchronize());
    return p;
  }
  void release(const void* adopted, int64_t bytes) override { deallocate(const_cast<void*>(adopted), bytes); }

  void upload(void* device, const void* host, int64_t bytes) override {
    if (bytes <= 0) return;
    std::vector<char> copy(static_cast<const char*>(host), static_cast<const char*>(host) + bytes);
    submit([this, device, copy = std::move(copy)] {
      std::memcpy(resolve(device), copy.data(), copy.size());
      return Status();
    });
  }
  void download(void* host, const void* device, int64_t bytes) override {
    if (bytes <= 0) return;
    submit([this, host, device, bytes] {
      std::memcpy(host, resolve(const_cast<void*>(device)), static_cast<size_t>(bytes));
      return Status();
    });
  }
  void fill_zero(void* device, int64_t bytes) override {
    if (bytes <= 0) return;
    submit([this, device, bytes] {
      std::memset(resolve(device), 0, static_cast<size_t>(bytes));
      return Status();
    });
  }

  void* resolve(void* p) const override {
    return p ? real_ + (static_cast<char*>(p) - hidden_) : nullptr;
  }

  void submit(std::function<Status()> work) override {
    {
      std::lock_guard lock(mutex_);
      queue_.push_back(std::move(work));
      ++submitted_;
    }
    changed_.notify_all();
  }

  Status synchronize() override { return drain(); }
  uint64_t record() override {
    std::lock_guard lock(mutex_);
    return submitted_;
  }
  Status wait(uint64_t mark) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ >= mark; });
    return std::exchange(failed_, Status());
  }

 private:
  Status drain() { return wait(record()); }

  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stop_ || !queue_.empty(); });
      if (queue_.empty()) return;
      auto work = std::move(queue_.front());
      queue_.pop_front();
      bool skip = !failed_.ok();  // after a fault nothing runs until somebody has been told
      lock.unlock();
      if (delay_us_) std::this_thread::sleep_for(std::chrono::microseconds(delay_us_));
      Status s = skip ? Status() : work();
      work = nullptr;
      lock.lock();
      if (!s.ok()) failed_ = std::move(s);
      ++done_;
      changed_.notify_all();
    }
  }

  char* hidden_;
  char* real_;
  int delay_us_;
  std::map<int64_t, int64_t> free_;  // offset -> bytes; host thread only
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<Status()>> queue_;
  uint64_t submitted_ = 0, done_ = 0;
  Status failed_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Device>> make_far_device(int delay_us) {
  void* hidden = ::mmap(nullptr, kReservation, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (hidden == MAP_FAILED) return environment("no address space for the far device");
  void* real = ::mmap(nullptr, kReservation, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (real == MAP_FAILED) {
    ::munmap(hidden, kReservation);
    return environment("no address space for the far device");
  }
  return std::unique_ptr<Device>(new FarDevice(static_cast<char*>(hidden), static_cast<char*>(real), delay_us));
}

}  // namespace brisk::ref
