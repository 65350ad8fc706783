// A device that keeps every layer above honest: its memory lies in an address space of its own and its queue is
// asynchronous. Addresses that allocate() gives out point into a reservation without access rights, so a host
// dereference faults; only work items, which pass addresses through resolve(), reach the real memory.
#pragma once
#include <memory>

#include "tensor/device.h"

namespace brisk::ref {

// `delay_us`: each work item waits that long first, so that races with the host show.
Result<std::unique_ptr<Device>> make_far_device(int delay_us = 0);

}  // namespace brisk::ref
