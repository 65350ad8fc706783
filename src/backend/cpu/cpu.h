// The CPU backend: vectorised kernels registered for the instruction sets of this host, capped by BRISK_MAX_ISA.
// KernelContext::backend of its kernels is a cpu::ThreadPool*.
#pragma once
#include <memory>

#include "kernel/kernel.h"
#include "tensor/device.h"

namespace brisk::cpu {

// Sets the registry's instruction-set features and adds all kernels, ids "cpu.<op>.<variant>.<isa>".
void add_kernels(Registry& registry);

// Host memory, work done at once on the calling thread, which kernels share out over the pool.
std::unique_ptr<Device> make_device();

}  // namespace brisk::cpu
