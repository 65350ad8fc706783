#include "backend/cpu/thread_pool.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>

namespace brisk::cpu {
namespace {

// A worker's spin covers the gap between two steps of a plan; the caller's is shorter, since by then only the last
// chunks are in flight, and going to sleep is what brings a preempted worker onto this core.
constexpr int64_t kWorkerSpinNs = 40'000;
constexpr int64_t kCallerSpinNs = 25'000;

thread_local bool inside_job = false;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

// Runs `ready` until it is true or the time is over.
template <class F>
bool spin(int64_t budget_ns, F&& ready) {
  int64_t end = 0;
  for (;;) {
    for (int i = 0; i < 32; i++) {
      if (ready()) return true;
      relax();
    }
    int64_t now = now_ns();
    if (end == 0) end = now + budget_ns;
    if (now >= end) return ready();
  }
}

void futex_wait(std::atomic<uint32_t>& word, uint32_t expected) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}
void futex_wake(std::atomic<uint32_t>& word, int count) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

// Quota in processors from the text "quota period", or 0 if there is none.
int quota_of(const std::string& quota, double period) {
  if (quota.empty() || quota == "max" || period <= 0) return 0;
  double q = std::atof(quota.c_str());
  return q <= 0 ? 0 : std::max(1, static_cast<int>(q / period + 0.999));
}

int cgroup_quota() {
  std::ifstream list("/proc/self/cgroup");
  std::string line;
  int best = 0;
  auto consider = [&](int q) { if (q > 0) best = best == 0 ? q : std::min(best, q); };
  while (std::getline(list, line)) {
    size_t a = line.find(':'), b = a == std::string::npos ? a : line.find(':', a + 1);
    if (b == std::string::npos) continue;
    std::string controllers = line.substr(a + 1, b - a - 1), path = line.substr(b + 1);
    bool v2 = controllers.empty();
    if (!v2 && ("," + controllers + ",").find(",cpu,") == std::string::npos) continue;
    for (;;) {  // every level up to the root may hold a limit
      if (v2) {
        std::ifstream f("/sys/fs/cgroup" + path + "/cpu.max");
        std::string quota;
        double period = 0;
        if (f >> quota >> period) consider(quota_of(quota, period));
      } else {
        std::ifstream q("/sys/fs/cgroup/cpu" + path + "/cpu.cfs_quota_us");
        std::ifstream p("/sys/fs/cgroup/cpu" + path + "/cpu.cfs_period_us");
        std::string quota;
        double period = 0;
        if (q >> quota && p >> period) consider(quota_of(quota, period));
      }
      if (path.empty() || path == "/") break;
      path.erase(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    }
  }
  return best;
}

}  // namespace

int available_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int n = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set)
                                                       : static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  if (int quota = cgroup_quota(); quota > 0) n = std::min(n, quota);
  return std::max(n, 1);
}

ThreadPool::ThreadPool(int threads) {
  if (threads <= 0) threads = available_threads();
  workers_.reserve(static_cast<size_t>(threads - 1));
  for (int i = 1; i < threads; i++) workers_.emplace_back([this, i] { worker_main(i); });
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  wake_.fetch_add(1);
  futex_wake(wake_, 1 << 30);
  for (auto& t : workers_) t.join();
}

void ThreadPool::run(int64_t n, Call call, void* context) {
  if (n <= 0) return;
  std::unique_lock lock(job_, std::defer_lock);
  if (n == 1 || workers_.empty() || n >= int64_t{kClosed} || inside_job || !lock.try_lock()) {
    bool was = std::exchange(inside_job, true);
    for (int64_t i = 0; i < n; i++) call(context, i, 0);
    inside_job = was;
    return;
  }
  // release / acquire: whoever sees a new field also sees that the old job was closed before it
  call_.store(call, std::memory_order_release);
  context_.store(context, std::memory_order_release);
  chunks_.store(static_cast<uint32_t>(n), std::memory_order_release);
  done_.store(0, std::memory_order_relaxed);
  uint32_t number = static_cast<uint32_t>(state_.load(std::memory_order_relaxed) >> 32) + 1;
  state_.store(uint64_t{number} << 32);
  wake_.fetch_add(1);  // seq_cst with sleepers_: either we see the sleeper or it sees the new number
  if (uint32_t asleep = sleepers_.load(); asleep > 0)
    futex_wake(wake_, static_cast<int>(std::min<int64_t>(asleep, n - 1)));

  inside_job = true;
  work(0);
  inside_job = false;

  uint32_t want = static_cast<uint32_t>(n);
  auto finished = [&] { return done_.load(std::memory_order_acquire) == want; };
  while (!spin(kCallerSpinNs, finished)) {
    caller_sleeps_.store(1);
    uint32_t seen = done_.load();
    if (seen != want) futex_wait(done_, seen);
    caller_sleeps_.store(0, std::memory_order_relaxed);
  }
  state_.store((uint64_t{number} << 32) | kClosed, std::memory_order_release);
}

void ThreadPool::work(int index) {
  uint64_t s = state_.load(std::memory_order_acquire);
  for (;;) {
    uint32_t chunk = static_cast<uint32_t>(s);
    Call call = call_.load(std::memory_order_acquire);
    void* context = context_.load(std::memory_order_acquire);
    uint32_t n = chunks_.load(std::memory_order_acquire);
    if (chunk == kClosed || chunk >= n) return;
    if (!state_.compare_exchange_weak(s, s + 1, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
    s++;
    call(context, chunk, index);
    if (done_.fetch_add(1) + 1 == n && caller_sleeps_.load() != 0) futex_wake(done_, 1);
  }
}

// Returns once wake_ differs from `seen`.
void ThreadPool::wait_for_job(uint32_t seen) {
  auto changed = [&] { return wake_.load(std::memory_order_acquire) != seen; };
  if (spin(kWorkerSpinNs, changed)) return;
  sleepers_.fetch_add(1);
  while (wake_.load() == seen) futex_wait(wake_, seen);
  sleepers_.fetch_sub(1);
}

void ThreadPool::worker_main(int index) {
  inside_job = true;  // a worker's nested calls run inline
  uint32_t seen = 0;
  for (;;) {
    wait_for_job(seen);
    seen = wake_.load();
    if (stop_.load()) return;
    work(index);
  }
}

}  // namespace brisk::cpu
