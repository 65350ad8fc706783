#include "kernel/kernel.h"

#include <algorithm>

namespace brisk {

std::vector<std::string> Registry::missing_isa(const KernelDesc& d) const {
  std::vector<std::string> missing;
  for (auto& f : d.requires_isa)
    if (std::find(isa_.begin(), isa_.end(), f) == isa_.end()) missing.push_back(f);
  return missing;
}

std::vector<const KernelDesc*> Registry::candidates(const ProblemDesc& p) const {
  std::vector<const KernelDesc*> found;
  for (auto& d : kernels_)
    if (d.op == p.op && missing_isa(d).empty() && (!d.accepts || d.accepts(p))) found.push_back(&d);
  std::stable_sort(found.begin(), found.end(), [](auto* a, auto* b) { return a->priority > b->priority; });
  return found;
}

const KernelDesc* Registry::best(const ProblemDesc& p) const {
  auto found = candidates(p);
  return found.empty() ? nullptr : found.front();
}

const KernelDesc* Registry::find(std::string_view id) const {
  for (auto& d : kernels_)
    if (d.id == id) return &d;
  return nullptr;
}

}  // namespace brisk
