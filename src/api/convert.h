// Public tensors to and from the internal form.
#pragma once
#include "brisk/tensor.h"
#include "tensor/tensor.h"

namespace brisk {

Result<ConstantPtr> to_constant(const Tensor& t);  // copies; checks dtype, rank, and that data has the size the shape says
Tensor to_tensor(const Constant& c);

}  // namespace brisk
