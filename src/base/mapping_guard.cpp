#include "base/mapping_guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace brisk::mapping_guard {
namespace {

// Read by the handler, so without a lock. An entry is free where `begin` is 0; `end` is set before `begin`.
struct Range {
  std::atomic<uintptr_t> begin{0}, end{0};
  std::atomic<bool> taken{false}, lost{false};
};
constexpr int kRanges = 4096;
Range g_ranges[kRanges];
std::atomic<uint64_t> g_losses{0};
std::atomic<int> g_used{0};  // entries ever taken: as far as one has to look
struct sigaction g_before;

// Async-signal-safe: atomics, mmap, sigaction, raise.
void on_bus_error(int number, siginfo_t* info, void*) {
  const auto at = reinterpret_cast<uintptr_t>(info->si_addr);
  for (int i = 0; info->si_code > 0 && i < g_used.load(); ++i) {
    Range& r = g_ranges[i];
    const uintptr_t begin = r.begin.load(), end = r.end.load();
    if (begin == 0 || at < begin || at >= end || r.begin.load() != begin) continue;  // changed hands between the loads: not ours
    // What follows is gone as well, or not to be trusted any more.
    const uintptr_t page = at & ~static_cast<uintptr_t>(4095);
    void* p = ::mmap(reinterpret_cast<void*>(page), end - page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (p == MAP_FAILED) break;
    if (!r.lost.exchange(true)) ++g_losses;
    return;
  }
  ::sigaction(number, &g_before, nullptr);  // not ours: the instruction runs again, or the signal is raised again
  if (info->si_code <= 0) ::raise(number);
}

void install() {
  static const bool done = [] {
    struct sigaction action {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    return ::sigaction(SIGBUS, &action, &g_before) == 0;
  }();
  (void)done;
}

}  // namespace

int add(const void* begin, size_t size) noexcept {
  install();
  for (int i = 0; i < kRanges; ++i) {
    Range& r = g_ranges[i];
    if (r.taken.exchange(true)) continue;
    r.lost = false;
    r.end = reinterpret_cast<uintptr_t>(begin) + size;
    r.begin = reinterpret_cast<uintptr_t>(begin);
    for (int used = g_used; used <= i && !g_used.compare_exchange_weak(used, i + 1);) {
    }
    return i;
  }
  return -1;
}

void remove(int slot) noexcept {
  if (slot < 0) return;
  Range& r = g_ranges[slot];
  r.begin = 0;
  r.taken = false;
}

bool lost(int slot) noexcept { return slot >= 0 && g_ranges[slot].lost; }
uint64_t losses() noexcept { return g_losses; }

}  // namespace brisk::mapping_guard
