// Private: what the classifiers and regressors of ai.onnx.ml share.
#pragma once
#include <optional>
#include <vector>

#include "import/onnx/lower.h"

namespace brisk::onnx_import {

// Attribute post_transform applied to scores [N, classes].
ValueId post_transformed(Lower& l, ValueId scores);

struct Labels {
  std::vector<int64_t> numbers;  // of each class; indices where the file has text (a note says so)
};
std::optional<Labels> class_labels(Lower& l);
// The labels at these indices, i64.
ValueId label_of(Lower& l, const Labels& labels, ValueId index);

}  // namespace brisk::onnx_import
