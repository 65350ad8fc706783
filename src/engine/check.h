// What is proven of an engine before a kernel touches memory.
//
// A checksum catches damage; these checks hold against a file made to harm. Structure (indices, single assignment,
// definitions before uses, kinds, blocks), kernels (known, in the stored version, runnable here, accepting the operands'
// types; weights packed as they read them and as many bytes), state operands (only states of the fitting geometry), and
// shapes: every step's result is what the operator's rule gives for its operands.
//
// Shapes are proven symbolically where all dimensions are polynomials: the rule's result equals the stored one, and the
// rule also accepts the operands at a random point, so no two of them agree by chance. Such a plan is marked
// shapes_proven. Any other plan is checked with numbers at its profile's corners (all symbols at min, at opt, at max),
// and again by check_shapes_at() when the executor binds other shapes.
#pragma once
#include <span>

#include "engine/plan.h"

namespace brisk {

// Everything above. Without a registry nothing is asked of kernels (engines of other machines). Sets Plan::shapes_proven.
Status check_content(EngineContent& content, const Registry* registry);

// Re-derives the shapes of `plan` (without its blocks) for these values of its symbols. An error names the step and both
// shapes. Values whose shape holds unknown symbols are left to the executor, which sees them when their step runs: it
// must run the rule for each `dynamic` step and for each step that reads a kDynamic value.
Status check_shapes_at(const Plan& plan, std::span<const Weight> weights, const Dim::Lookup& symbols);

// The elements of a value that is a plain weight (or a view of one) of at most kMaxTrackedElements, else absent.
std::optional<TensorView> known_elements(const Plan& plan, std::span<const Weight> weights, int32_t value);

// Parts of check_content: one function's plan with its blocks, in this order.
Status check_structure(const Plan& plan, std::span<const Weight> weights);
Status prove_shapes(Plan& plan, std::span<const Weight> weights);
Status check_step_signature(const Plan& plan);  // of the function "step" only

// "step 12 Linear 'layers.0.q'"
std::string step_name(const Plan& plan, size_t step);

}  // namespace brisk
