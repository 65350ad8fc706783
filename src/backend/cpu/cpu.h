// The CPU backend: vectorised kernels for x86-64 with AVX2 or more, registered for the instruction sets of this host,
// capped by BRISK_MAX_ISA. KernelContext::backend of its kernels is a cpu::ThreadPool*.
#pragma once
#include <memory>

#include "backend/cpu/kernel_table.h"
#include "backend/cpu/thread_pool.h"
#include "kernel/kernel.h"
#include "tensor/device.h"

namespace brisk::cpu {

// Adds the kernels (ids "cpu.<Op>[.<variant>]") and the host's feature names (isa_name) to the registry. Where the host
// has no AVX2 nothing is added: the reference kernels remain.
void add_kernels(Registry& registry);

// Host memory; work is done at once on the calling thread and the pool.
std::unique_ptr<Device> make_device();

// Groups of kernels; add_kernels calls each once.
void add_linear(Registry& registry);
void add_decoder(Registry& registry);
void add_dense(Registry& registry);      // and, of its own, add_recurrent and add_integer
void add_recurrent(Registry& registry);
void add_integer(Registry& registry);

// What a kernel of this backend works with. Only kernels that requires_isa has admitted may ask.
struct Context {
  ThreadPool& pool;
  const KernelTable& table;
};
inline Context context_of(KernelContext& c) { return {*static_cast<ThreadPool*>(c.backend), kernels(*active_isa())}; }

}  // namespace brisk::cpu
