#include "loop/step_input.h"

#include <algorithm>

namespace brisk {

void build_step_input(const Scheduler& scheduler, const StepPlan& plan,
                      const std::function<const SampleParams&(RequestId)>& sampling, StepInput& out) {
  for (auto* v : {&out.ids, &out.positions, &out.seq_starts, &out.context_lens, &out.block_tables, &out.logit_rows, &out.slots})
    v->clear();
  out.params.clear();
  out.table_columns = 0;
  for (const PlannedSequence& p : plan.sequences)
    out.table_columns = std::max(out.table_columns, static_cast<int32_t>(scheduler.blocks(p.id).size()));

  out.seq_starts.push_back(0);
  for (const PlannedSequence& p : plan.sequences) {
    const auto tokens = scheduler.tokens(p.id);
    for (int64_t i = p.start; i < p.start + p.count; ++i) {
      // Only the id that the step in flight samples is unknown; the device has it in the slot.
      out.ids.push_back(i < static_cast<int64_t>(tokens.size()) ? tokens[static_cast<size_t>(i)] : -1 - p.slot);
      out.positions.push_back(static_cast<int32_t>(i));
    }
    out.seq_starts.push_back(static_cast<int32_t>(out.ids.size()));
    out.context_lens.push_back(static_cast<int32_t>(p.start + p.count));
    const auto blocks = scheduler.blocks(p.id);
    out.block_tables.insert(out.block_tables.end(), blocks.begin(), blocks.end());
    out.block_tables.resize(out.context_lens.size() * static_cast<size_t>(out.table_columns), 0);
    if (!p.samples) continue;
    out.logit_rows.push_back(static_cast<int32_t>(out.ids.size()) - 1);
    out.slots.push_back(p.slot);
    out.params.push_back(sampling(p.id));
    out.params.back().draw = static_cast<uint64_t>(p.sample_index);
  }
}

}  // namespace brisk
