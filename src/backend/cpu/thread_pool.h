// The compute pool of the CPU backend: persistent workers, dynamic chunks, no barrier that a descheduled thread can block.
//
// One job at a time: chunks 0..n-1 are handed out by an atomic counter, the caller takes part, and the call returns when
// all chunks are done. A worker that has taken no chunk is never waited for, so a parked, late or preempted one costs
// nothing. Idle workers spin for a short time and then sleep on a futex; a waiting caller does the same, which lets the
// kernel move a preempted worker to the idle core.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace brisk::cpu {

// Processors this process may use: the affinity mask capped by the cgroup CPU quota (rounded up), at least 1.
int available_threads();

class ThreadPool {
 public:
  // `threads` counts the caller; 0 means available_threads().
  explicit ThreadPool(int threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls fn(chunk, worker) for each chunk in [0, n), worker in [0, size()); two calls that run at the same time never
  // have the same worker. fn must not throw. Called from inside fn, or while another thread's job runs, everything is
  // done by the calling thread with worker 0 of its own: scratch must come from the caller's frame or thread_local then.
  template <class F>
  void parallel_for(int64_t n, F&& fn) {
    using Fn = std::remove_reference_t<F>;
    run(n, [](void* f, int64_t chunk, int worker) { (*static_cast<Fn*>(f))(chunk, worker); },
        const_cast<void*>(static_cast<const void*>(std::addressof(fn))));
  }

 private:
  using Call = void (*)(void*, int64_t chunk, int worker);
  void run(int64_t n, Call call, void* context);
  void worker_main(int index);
  void work(int index);  // takes chunks of the open job until none is left
  void wait_for_job(uint32_t seen);

  static constexpr uint32_t kClosed = 0xffffffffu;
  // High half: number of the job; low half: next chunk, or kClosed between jobs. The job's fields change only while it
  // is closed, and a chunk is taken by compare-exchange on the whole word, so a late worker cannot mix two jobs.
  alignas(64) std::atomic<uint64_t> state_{kClosed};
  alignas(64) std::atomic<uint32_t> done_{0};            // chunks finished; futex of the caller
  std::atomic<uint32_t> caller_sleeps_{0};
  alignas(64) std::atomic<Call> call_{nullptr};
  std::atomic<void*> context_{nullptr};
  std::atomic<uint32_t> chunks_{0};
  alignas(64) std::atomic<uint32_t> wake_{0};            // number of the last job; futex of the workers
  std::atomic<uint32_t> sleepers_{0};
  std::atomic<bool> stop_{false};
  std::mutex job_;
  std::vector<std::thread> workers_;
};

}  // namespace brisk::cpu
