#include <gtest/gtest.h>

#include <set>

#include "backend/cpu/cpu.h"
#include "backend/ref/ref.h"

namespace brisk {
namespace {

// Engines name kernels by id, so two kernels of one name would be one to a reader.
TEST(KernelIds, AreUnique) {
  Registry r;
  ref::add_kernels(r);
  cpu::add_kernels(r);
  std::set<std::string> seen;
  for (const KernelDesc& k : r.all()) EXPECT_TRUE(seen.insert(k.id).second) << k.id;
  EXPECT_GT(seen.size(), 50u);
}

}  // namespace
}  // namespace brisk
