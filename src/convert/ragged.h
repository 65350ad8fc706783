// The step graph under construction: values in ragged layout, views that cancel, constants stored once.
#pragma once
#include <map>

#include "ir/step_frame.h"

namespace brisk::convert {

// Of a value with tokens: [T * multiple, others].
struct Ragged {
  int64_t multiple = 1;
  std::vector<int64_t> others;
  bool operator==(const Ragged&) const = default;
};

class RaggedGraph {
 public:
  Graph g;
  StepFrame frame;

  // A node of one result in ragged layout.
  Result<ValueId> add(OpId op, Attrs attrs, std::vector<ValueId> in, Ragged layout, const std::string& name);
  void note(ValueId v, Ragged layout) { layout_[v] = std::move(layout); }
  const Ragged& layout(ValueId v) const { return layout_.at(v); }
  // The same elements under another layout: nothing if it has it, or had it before a view that this one undoes.
  Result<ValueId> view(ValueId v, const Ragged& to, const std::string& name);
  Result<ValueId> cast(ValueId v, DType t);

  ValueId ints(const std::vector<int64_t>& v);
  // A constant; one that holds the same numbers is used again.
  ValueId constant(const std::string& name, ConstantPtr c);

 private:
  std::map<ValueId, Ragged> layout_;
  std::map<ValueId, ValueId> viewed_;  // result of a view -> what it is a view of
  std::map<std::pair<ValueId, DType>, ValueId> casts_;
  std::map<std::vector<int64_t>, ValueId> ints_;
  std::multimap<std::pair<int64_t, int64_t>, ValueId> constants_;  // by number of elements and last size
};

// Floats as f32, other types as they are.
ConstantPtr as_f32(ConstantPtr c);
ConstantPtr reshaped(const ConstantPtr& c, const Dims& shape);

}  // namespace brisk::convert
