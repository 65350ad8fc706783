// What the registration files of memory-bound operators share.
#pragma once
#include "backend/cpu/cpu.h"
#include "backend/cpu/light_table.h"
#include "base/checked.h"

namespace brisk::cpu {

inline const LightTable& light_of_host() {
  static const LightTable& table = light_table(*active_isa());
  return table;
}
inline ThreadPool& pool_of(KernelContext& c) { return *static_cast<ThreadPool*>(c.backend); }

// "cpu.<Op>" for any host with AVX2.
inline KernelDesc light_desc(OpId op, KernelFn run, bool (*accepts)(const ProblemDesc&), uint32_t in_place = 0) {
  KernelDesc d;
  d.op = op;
  d.id = std::string("cpu.") + op_name(op);
  d.requires_isa = {"avx2"};
  d.priority = 20;
  d.numerics = "cpu";
  d.run = run;
  d.accepts = accepts;
  d.in_place = in_place;
  return d;
}

inline bool all_plain(const ProblemDesc& p) {
  for (const OperandDesc& o : p.inputs)
    if (!o.encoding.plain()) return false;
  return true;
}
// All operands present and results wanted are f32.
inline bool all_f32(const ProblemDesc& p) {
  for (const OperandDesc& o : p.inputs)
    if (o.present && o.type.dtype != DType::kF32) return false;
  return all_plain(p);
}
inline bool whole_bytes(const ProblemDesc& p) { return all_plain(p) && p.has(0) && dtype_bits(p.inputs[0].type.dtype) % 8 == 0 && dtype_bits(p.inputs[0].type.dtype) > 0; }

inline int axis_in(int64_t axis, int rank) { return static_cast<int>(axis < 0 ? axis + rank : axis); }

// f(first, last) over [0, n) in chunks of about `work` units each, a unit taking `cost` of them; one chunk runs on the caller.
// A chunk should take some microseconds: about 20'000 simple vector-instruction elements.
template <class F>
void for_ranges(ThreadPool& pool, int64_t n, double cost, F&& f) {
  constexpr double kChunk = 30'000;
  if (n <= 0) return;
  double chunks_wanted = static_cast<double>(n) * cost / kChunk;
  int64_t chunks = chunks_wanted < 2 ? 1 : std::min<int64_t>({static_cast<int64_t>(chunks_wanted), n, int64_t{4} * pool.size()});
  if (chunks <= 1) return f(int64_t{0}, n);
  pool.parallel_for(chunks, [&](int64_t c, int) { f(n * c / chunks, n * (c + 1) / chunks); });
}

void add_light_pointwise(Registry& r);
void add_light_rows(Registry& r);      // softmax, norms, reductions
void add_light_movement(Registry& r);  // transpose, slices, gathers, padding
void add_light_attention(Registry& r);  // over whole tensors
void add_light_reductions(Registry& r);
void add_light_indexing(Registry& r);
void add_light_trees(Registry& r);
void add_light_images(Registry& r);     // resizing, quantisation

}  // namespace brisk::cpu
