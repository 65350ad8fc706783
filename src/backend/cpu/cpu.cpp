#include "backend/cpu/cpu.h"

#include "backend/cpu/light.h"
#include "tensor/host_device.h"

namespace brisk::cpu {

void add_kernels(Registry& registry) {
  auto best = active_isa();
  if (!best) return;
  std::vector<std::string> features;
  for (Isa isa : present_isas())
    if (isa <= *best) features.emplace_back(isa_name(isa));
  registry.set_isa(std::move(features));
  add_linear(registry);
  add_decoder(registry);
  add_dense(registry);
  add_light_pointwise(registry);
  add_light_rows(registry);
  add_light_movement(registry);
  add_light_attention(registry);
  add_light_reductions(registry);
  add_light_indexing(registry);
  add_light_trees(registry);
  add_light_images(registry);
}

std::unique_ptr<Device> make_device() { return std::make_unique<HostDevice>("cpu"); }

}  // namespace brisk::cpu
