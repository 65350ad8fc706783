#include "backend/ref/ref.h"

#include "backend/ref/groups.h"
#include "tensor/host_device.h"

namespace brisk::ref {

void add_kernels(Registry& registry) {
  for (auto add_group : {add_linear, add_decoder, add_sample, add_pointwise, add_movement, add_indexing, add_reduction,
                         add_products, add_convolution, add_normalization, add_recurrent, add_quantization, add_image,
                         add_sampling, add_windows, add_selection, add_attention, add_linear_attention}) add_group(registry);
}

std::unique_ptr<Device> make_device() { return std::make_unique<HostDevice>("ref"); }

}  // namespace brisk::ref
