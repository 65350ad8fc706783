// Runs a fuzzer's seeds and seeded mutations of them: NAME_fuzz [--runs N | --write DIR | FILE...]
//   --runs N      mutations of each seed (default: 10000, or what four seconds for all of them allow)
//   --write DIR   only writes the seeds there (the corpus that libFuzzer starts from)
//   FILE...       runs these instead, unchanged (to look at a failure again)
// The input that failed is left as failed-input.bin in the current folder. Exit code 0: all survived.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>

#include "base/log.h"
#include "fuzz/counted_memory.h"
#include "fuzz/fuzz.h"

namespace {

constexpr int64_t kMemoryFactor = 16, kMemorySlack = 32 << 20;
constexpr unsigned kSecondsPerInput = 10;
const char* g_data = nullptr;  // the input that runs now
size_t g_size = 0;

[[noreturn]] void fail(const char* why) {  // async-signal-safe
  const int fd = open("failed-input.bin", O_CREAT | O_TRUNC | O_WRONLY, 0644);
  const bool written = fd >= 0 && write(fd, g_data, g_size) == static_cast<ssize_t>(g_size);
  const char* tail = written ? " on failed-input.bin\n" : ", and the input could not be written\n";
  (void)!write(2, why, std::strlen(why));
  (void)!write(2, tail, std::strlen(tail));
  _exit(1);
}

void on_signal(int number) {
  fail(number == SIGALRM ? "hang" : number == SIGABRT ? "abort" : number == SIGBUS ? "SIGBUS" : "crash");
}

void catch_signals() {
  static char stack[64 << 10];  // a parser that recurses too deep has none left
  stack_t other{};
  other.ss_sp = stack;
  other.ss_size = sizeof stack;
  sigaltstack(&other, nullptr);
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_ONSTACK;
  for (int number : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGALRM}) sigaction(number, &action, nullptr);
}

bool run(const std::string& input) {
  g_data = input.data();
  g_size = input.size();
  alarm(kSecondsPerInput);
  brisk::fuzz::reset_peak();
  const bool accepted = brisk::fuzz::parse(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  if (brisk::fuzz::peak_bytes() > kMemoryFactor * static_cast<int64_t>(input.size()) + kMemorySlack)
    fail("more memory than the input justifies");
  alarm(0);
  return accepted;
}

class Mutator {
 public:
  explicit Mutator(uint32_t seed) : random_(seed) {}

  std::string mutate(std::string s) {
    for (size_t n = 1 + below(4); n > 0; --n) change(s);
    return s;
  }

 private:
  size_t below(size_t n) { return n == 0 ? 0 : random_() % n; }

  // Where to change it; half of the time near the beginning, where headers are.
  size_t place(const std::string& s) { return below(below(2) == 0 ? s.size() : std::min<size_t>(s.size(), 4096)); }

  // Numbers that parsers trip over, in little endian at any width.
  uint64_t interesting() {
    constexpr uint64_t kValues[] = {0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff,
                                    0x100000000, 0x7fffffffffffffff, 0x8000000000000000, 0xffffffffffffffff};
    return kValues[below(std::size(kValues))];
  }

  void change(std::string& s) {
    const size_t at = place(s), length = std::min(s.size() - at, below(64));
    switch (below(7)) {
      case 0: s.resize(at); break;
      case 1: if (!s.empty()) s[at] = static_cast<char>(s[at] ^ (1 << below(8))); break;
      case 2: if (!s.empty()) s[at] = static_cast<char>(below(256)); break;
      case 3: {
        const uint64_t value = interesting();
        std::memcpy(s.data() + at, &value, std::min(s.size() - at, size_t{1} << below(4)));
        break;
      }
      case 4: s.erase(at, length); break;
      case 5: s.insert(below(s.size() + 1), s.substr(at, length)); break;
      default: s.insert(at, 1 + below(16), static_cast<char>(below(256))); break;
    }
  }

  std::mt19937 random_;
};

std::string read_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "%s: cannot be read\n", path);
    std::exit(2);
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_seeds(const std::string& folder) {
  const auto seeds = brisk::fuzz::seeds();
  for (size_t i = 0; i < seeds.size(); ++i)
    std::ofstream(folder + "/seed" + std::to_string(i), std::ios::binary) << seeds[i];
}

int run_mutations(int runs, std::chrono::milliseconds limit) {
  const auto seeds = brisk::fuzz::seeds();
  int64_t done = 0, accepted = 0;
  for (size_t i = 0; i < seeds.size(); ++i) {
    if (!run(seeds[i])) fail("a seed was refused");
    Mutator mutator(static_cast<uint32_t>(i));
    const auto end = std::chrono::steady_clock::now() + limit / seeds.size();
    for (int n = 0; n < runs && std::chrono::steady_clock::now() < end; ++n, ++done) accepted += run(mutator.mutate(seeds[i]));
  }
  std::printf("%zu seeds, %lld mutations survived, %lld of them accepted\n", seeds.size(), static_cast<long long>(done),
              static_cast<long long>(accepted));
  return seeds.empty() ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  catch_signals();
  brisk::set_log_level(brisk::LogLevel::kError);  // files that are wrong are told of by warnings
  if (argc == 3 && std::strcmp(argv[1], "--write") == 0) return write_seeds(argv[2]), 0;
  if (argc == 3 && std::strcmp(argv[1], "--runs") == 0) return run_mutations(std::atoi(argv[2]), std::chrono::hours(1));
  if (argc == 1) return run_mutations(10000, std::chrono::seconds(4));
  for (int i = 1; i < argc; ++i) std::printf("%s: %s\n", argv[i], run(read_file(argv[i])) ? "accepted" : "refused");
  return 0;
}
