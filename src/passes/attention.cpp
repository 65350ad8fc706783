// Fusions round PagedAttention: rotary embedding inside, one projection for q, k and v.
#include "passes/all.h"
#include "passes/rewrite.h"
#include "tensor/constant_ops.h"

namespace brisk::passes {

Result<int> fuse_rope(Graph& g, PassContext& c) {
  int changed = 0;
  Index index(g);
  for (Node& n : g.nodes) {
    if (n.op != OpId::kPagedAttention || std::get<AttentionAttrs>(n.attrs).rope_dim) continue;
    Node *q = index.producer(operand(n, 0), OpId::kRope), *k = index.producer(operand(n, 1), OpId::kRope);
    if (!q || !k || !(q->attrs == k->attrs) || q->inputs[1] != n.inputs[4] || k->inputs[1] != n.inputs[4] ||
        q->inputs[2] != k->inputs[2] || !index.single_use(n.inputs[0]) || !index.single_use(n.inputs[1]))
      continue;
    const auto& rope = std::get<RopeAttrs>(q->attrs);
    auto& attention = std::get<AttentionAttrs>(n.attrs);
    if (rope.head_dim != attention.head_dim) continue;
    attention.rope_dim = rope.dim;
    attention.rope_interleaved = rope.interleaved;
    attention.rope_magnitude = rope.magnitude;
    set_operand(n, 8, q->inputs[2]);
    n.inputs[0] = q->inputs[0];
    n.inputs[1] = k->inputs[0];
    ++changed;
  }
  if (changed) BRISK_TRY(remove_dead(g, c));
  return changed;
}

Result<int> merge_qkv(Graph& g, PassContext& c) {
  int changed = 0;
  for (bool again = true; again;) {
    again = false;
    Index index(g);
    for (size_t i = 0; i < g.nodes.size() && !again; ++i) {
      if (g.nodes[i].op != OpId::kPagedAttention || operand(g.nodes[i], 1) < 0) continue;
      Node* part[3];
      std::vector<ConstantPtr> weights, biases;
      bool usable = true;
      for (size_t k = 0; k < 3; ++k) {
        part[k] = index.producer(g.nodes[i].inputs[k], OpId::kLinear);
        usable = usable && part[k] && index.single_use(g.nodes[i].inputs[k]) && operand(*part[k], 3) < 0 &&
                 operand(*part[k], 4) < 0 && part[k]->inputs[0] == part[0]->inputs[0] &&
                 part[k]->attrs == part[0]->attrs && g.constant(part[k]->inputs[1]) &&
                 (operand(*part[k], 2) < 0) == (operand(*part[0], 2) < 0);
        if (!usable) break;
        weights.push_back(g.value(part[k]->inputs[1]).constant);
        if (ValueId b = operand(*part[k], 2); b >= 0) {
          if (!g.constant(b)) { usable = false; break; }
          biases.push_back(g.value(b).constant);
        }
      }
      if (!usable) continue;
      auto merged = concat_rows(weights);
      if (!merged.ok()) continue;  // encodings differ
      Node fused = *part[0];
      fused.inputs = {part[0]->inputs[0], g.add_constant(g.value(part[0]->inputs[1]).name + "+kv", std::move(*merged))};
      if (!biases.empty()) {
        std::vector<float> all;
        for (auto& b : biases) {
          auto f = to_floats(*b);
          all.insert(all.end(), f.begin(), f.end());
        }
        fused.inputs.push_back(g.add_constant(fused.name + ".bias", make_constant(DType::kF32, {static_cast<int64_t>(all.size())}, all)));
      }
      fused.outputs = {g.add_value(fused.name + ".qkv")};
      BRISK_TRY(infer_node(g, fused));
      g.nodes[i].inputs[0] = fused.outputs[0];
      g.nodes[i].inputs[1] = g.nodes[i].inputs[2] = kNoValue;
      g.nodes.insert(g.nodes.begin() + static_cast<int64_t>(i), std::move(fused));
      BRISK_TRY(remove_dead(g, c));
      ++changed;
      again = true;
    }
  }
  return changed;
}

Result<int> keep_qkv_packed(Graph& g, PassContext& c) {
  int changed = 0;
  Round r(g, c);
  for (Node& n : g.nodes) {
    if (n.op != OpId::kPagedAttention || operand(n, 1) < 0) continue;
    const auto& a = std::get<AttentionAttrs>(n.attrs);
    const int64_t q = a.heads * a.head_dim, kv = a.kv_heads * a.head_dim, starts[] = {0, q, q + kv}, lengths[] = {q, kv, kv};
    ValueId whole = kNoValue;
    bool fits = true;
    for (size_t i = 0; i < 3 && fits; ++i) {
      auto part = last_axis_part(r, n.inputs[i]);
      fits = part && part->start == starts[i] && part->length == lengths[i] && part->step == 1 && (i == 0 || part->of == whole);
      if (fits) whole = part->of;
    }
    if (!fits || type_of(g, whole).rank() != 2 || type_of(g, whole).shape[1].constant_or(0) != q + 2 * kv) continue;
    n.inputs[0] = whole;
    n.inputs[1] = n.inputs[2] = kNoValue;
    ++changed;
  }
  if (changed) BRISK_TRY(remove_dead(g, c));
  return changed;
}

}  // namespace brisk::passes
