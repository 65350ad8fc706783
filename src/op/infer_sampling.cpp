// Shape rules of sampling at computed places, and of windows written back.
#include "op/rules.h"
#include "op/window.h"

namespace brisk::rules {

Status infer_grid_sample(InferContext& c) {
  const Type &x = c.in(0), &grid = c.in(1);
  const auto& a = c.attrs<GridSampleAttrs>();
  if (a.mode != "linear" && a.mode != "nearest" && a.mode != "cubic") return invalid("mode '" + a.mode + "'");
  if (a.padding != "zeros" && a.padding != "border" && a.padding != "reflection") return invalid("padding_mode '" + a.padding + "'");
  if (!is_float(grid.dtype)) return invalid("the grid is " + to_string(grid));
  Type& y = c.out();
  y.dtype = x.dtype;
  y.ranked = x.ranked && grid.ranked;
  if (!y.ranked) return {};
  auto axes = grid.rank() > 2 ? grid.shape.back().constant() : std::nullopt;
  if (x.rank() < 3 || grid.rank() != x.rank() || (axes && *axes != x.rank() - 2))
    return invalid("x " + to_string(x) + " and grid " + to_string(grid) + ", wanted [N, C, r axes] and [N, r axes, r]");
  auto n = x.shape[0].constant(), m = grid.shape[0].constant();
  if (n && m && *n != *m) return invalid("a batch of " + std::to_string(*n) + ", the grid has " + std::to_string(*m));
  y.shape = {x.shape[0], x.shape[1]};
  y.shape.insert(y.shape.end(), grid.shape.begin() + 1, grid.shape.end() - 1);
  return {};
}

Status infer_roi(InferContext& c) {
  const Type &x = c.in(0), &regions = c.in(1);
  const auto& a = c.attrs<RoiAttrs>();
  int64_t width = c.op() == OpId::kMaxRoiPool ? 5 : 4;
  for (int64_t v : {a.height, a.width})
    if (v < 1 || v > INT32_MAX) return invalid("a result of " + std::to_string(a.height) + " x " + std::to_string(a.width));
  if (a.sampling < 0 || a.sampling > 1024) return invalid("sampling_ratio " + std::to_string(a.sampling) + " outside [0, 1024]");
  if (x.ranked && x.rank() != 4) return invalid("x is " + to_string(x) + ", wanted [N, C, H, W]");
  auto have = regions.ranked && regions.rank() == 2 ? regions.shape[1].constant() : std::nullopt;
  if (regions.ranked && (regions.rank() != 2 || (have && *have != width))) return invalid("regions are " + to_string(regions) + ", wanted [n, " + std::to_string(width) + "]");
  if (c.has(2) && (!is_integer(c.in(2).dtype) || (c.in(2).ranked && c.in(2).rank() != 1))) return invalid("the batches are " + to_string(c.in(2)) + ", wanted integers [n]");
  c.out() = Type{x.dtype, true, {regions.ranked ? regions.shape[0] : c.fresh("roi"), x.ranked ? x.shape[1] : c.fresh("roi"), a.height, a.width}, {}};
  return {};
}

Status infer_max_unpool(InferContext& c) {
  const Type& x = c.in(0);
  const auto& a = c.attrs<WindowAttrs>();
  size_t axes = a.kernel.size();
  BRISK_TRY(check_window(a, axes));
  if (!is_integer(c.in(1).dtype)) return invalid("places are " + to_string(c.in(1)));
  Type& y = c.out();
  y.dtype = x.dtype;
  y.ranked = x.ranked;
  if (!x.ranked) return {};
  if (axes == 0 || static_cast<size_t>(x.rank()) != axes + 2) return invalid("a window of " + std::to_string(axes) + " axes over x of rank " + std::to_string(x.rank()));
  if (c.has(2)) {
    BRISK_ASSIGN(auto s, shape_operand(c, 2, "unpool"));
    if (s && static_cast<int>(s->size()) != x.rank()) return invalid("an output shape of rank " + std::to_string(s->size()) + " for x of rank " + std::to_string(x.rank()));
    if (s) {
      y.shape = *s;
    } else {
      BRISK_ASSIGN(y.shape, fresh_shape(c, x.rank(), "unpool"));
    }
  } else {
    y.shape = {x.shape[0], x.shape[1]};
    for (size_t i = 0; i < axes; ++i) {
      WindowAxis w = window_axis(a, i, a.kernel[i], static_cast<int64_t>(axes), 0);
      y.shape.push_back((x.shape[2 + i] - Dim(1)) * Dim(w.stride) + Dim(w.kernel - w.begin - w.end));
    }
  }
  for (const Dim& d : y.shape)
    if (auto v = d.constant(); v && *v < 0) return invalid("a result of " + to_string(y.shape));
  return {};
}

Status infer_col2im(InferContext& c) {
  const Type& x = c.in(0);
  const auto& a = c.attrs<WindowAttrs>();
  Type& y = c.out();
  y.dtype = x.dtype;
  if (x.ranked && x.rank() != 3) return invalid("x is " + to_string(x) + ", wanted [N, C * block, L]");
  BRISK_ASSIGN(auto image, shape_operand(c, 1, "image"));
  auto block = c.numbers(2);
  y.ranked = x.ranked && image.has_value();
  if (image) BRISK_TRY(check_window(a, image->size()));
  if (block)
    for (int64_t k : *block)
      if (k < 1 || k > INT32_MAX) return invalid("block_shape holds " + std::to_string(k));
  if (!y.ranked) return {};
  y.shape = {x.shape[0], c.fresh("channels")};
  if (block) {
    auto size = checked_count(*block);
    auto have = x.shape[1].constant();
    if (!size || block->size() != image->size() || (have && *have % *size != 0)) return invalid("a block of " + std::to_string(block->size()) + " axes for an image of " + std::to_string(image->size()) + " and x " + to_string(x));
    y.shape[1] = Dim::floor_div(x.shape[1], *size);
  }
  for (const Dim& d : *image)
    if (auto v = d.constant(); v && *v < 0) return invalid("image_shape holds " + std::to_string(*v));
  y.shape.insert(y.shape.end(), image->begin(), image->end());
  return too_many_axes(y.shape.size());
}

Status infer_deform_conv(InferContext& c) {
  const Type &x = c.in(0), &w = c.in(1), &offset = c.in(2);
  const auto& a = c.attrs<WindowAttrs>();
  Type& y = c.out();
  y.dtype = x.dtype;
  for (const Type* t : {&x, &w, &offset})
    if (t->ranked && t->rank() != 4) return unsupported("a deformable convolution of " + to_string(x) + " and " + to_string(w) + ": two spatial axes only");
  BRISK_TRY(check_window(a, 2));
  y.ranked = x.ranked && w.ranked;
  if (!y.ranked) return {};
  auto channels = x.shape[1].constant(), per = w.shape[1].constant(), m = w.shape[0].constant();
  bool bad = a.group < 1 || (m && *m % a.group != 0) || (channels && per && (*per > INT32_MAX || a.group > INT32_MAX || *channels != *per * a.group));
  if (bad) return invalid("x " + to_string(x) + " and weight " + to_string(w) + " in " + std::to_string(a.group) + " groups");
  y.shape = {x.shape[0], w.shape[0]};
  for (size_t i = 0; i < 2; ++i) {
    auto k = w.shape[2 + i].constant();
    y.shape.push_back(k ? window_count(a, i, *k, 2, x.shape[2 + i]) : c.fresh("conv"));
    if (auto v = y.shape.back().constant(); v && *v < 0) return invalid("the window is larger than spatial axis " + std::to_string(i));
  }
  return {};
}

}  // namespace brisk::rules
