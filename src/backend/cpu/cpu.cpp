#include "backend/cpu/cpu.h"

#include "backend/cpu/isa.h"
#include "tensor/host_device.h"

namespace brisk::cpu {

void add_kernels(Registry& registry) {
  std::vector<std::string> features;
  auto best = active_isa();
  for (Isa isa : present_isas())
    if (best && isa <= *best) features.emplace_back(isa_name(isa));
  registry.set_isa(std::move(features));
}

std::unique_ptr<Device> make_device() { return std::make_unique<HostDevice>("cpu"); }

}  // namespace brisk::cpu
