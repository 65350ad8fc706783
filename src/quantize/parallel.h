// A loop whose turns are independent, over a few threads: for the mathematics of a build, which has no device's pool.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <system_error>
#include <thread>
#include <vector>

namespace brisk {

// fn(i) for each i in [0, n), in any order. fn must not throw. What fn computes may not depend on `threads`.
template <class F>
void parallel_for(int64_t n, int threads, F&& fn) {
  std::atomic<int64_t> next{0};
  auto work = [&] {
    for (int64_t i; (i = next.fetch_add(1)) < n;) fn(i);
  };
  std::vector<std::thread> others;
  try {
    for (int t = 1; t < std::min<int64_t>(threads, n); ++t) others.emplace_back(work);
  } catch (const std::system_error&) {  // no more threads to be had: the work is done by those that are
  }
  work();
  for (auto& t : others) t.join();
}

}  // namespace brisk
