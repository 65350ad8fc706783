#include "fuzz/counted_memory.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace brisk::fuzz {
namespace {
std::atomic<int64_t> g_live{0}, g_peak{0}, g_start{0};

void* take(size_t size, size_t align) {
  if (size == 0) size = 1;
  void* p = align == 0 ? std::malloc(size) : std::aligned_alloc(align, (size + align - 1) / align * align);
  if (p == nullptr) throw std::bad_alloc();
  const int64_t live = g_live += static_cast<int64_t>(malloc_usable_size(p));
  int64_t peak = g_peak;
  while (peak < live && !g_peak.compare_exchange_weak(peak, live)) {
  }
  return p;
}

void give_back(void* p) {
  if (p != nullptr) g_live -= static_cast<int64_t>(malloc_usable_size(p));
  std::free(p);
}
}  // namespace

void reset_peak() {
  g_start = g_live.load();
  g_peak = g_live.load();
}

int64_t peak_bytes() { return g_peak - g_start; }

}  // namespace brisk::fuzz

using brisk::fuzz::give_back;
using brisk::fuzz::take;

void* operator new(size_t size) { return take(size, 0); }
void* operator new[](size_t size) { return take(size, 0); }
void* operator new(size_t size, std::align_val_t align) { return take(size, static_cast<size_t>(align)); }
void* operator new[](size_t size, std::align_val_t align) { return take(size, static_cast<size_t>(align)); }
// std::stable_sort asks this one; left to a sanitizer's own, it would be mixed with the delete below.
void* operator new(size_t size, const std::nothrow_t&) noexcept try { return take(size, 0); } catch (const std::bad_alloc&) { return nullptr; }
void* operator new[](size_t size, const std::nothrow_t&) noexcept try { return take(size, 0); } catch (const std::bad_alloc&) { return nullptr; }
void operator delete(void* p, const std::nothrow_t&) noexcept { give_back(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { give_back(p); }
void operator delete(void* p) noexcept { give_back(p); }
void operator delete[](void* p) noexcept { give_back(p); }
void operator delete(void* p, size_t) noexcept { give_back(p); }
void operator delete[](void* p, size_t) noexcept { give_back(p); }
void operator delete(void* p, std::align_val_t) noexcept { give_back(p); }
void operator delete[](void* p, std::align_val_t) noexcept { give_back(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { give_back(p); }
void operator delete[](void* p, size_t, std::align_val_t) noexcept { give_back(p); }
