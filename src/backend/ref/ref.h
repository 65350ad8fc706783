// The reference backend: slow, obvious kernels, the oracle of all others. Every operator has one here.
#pragma once
#include <memory>

#include "kernel/kernel.h"
#include "tensor/device.h"

namespace brisk::ref {

// All reference kernels, ids "ref.<Op>".
void add_kernels(Registry& registry);

// Host memory, work done at once.
std::unique_ptr<Device> make_device();

}  // namespace brisk::ref
