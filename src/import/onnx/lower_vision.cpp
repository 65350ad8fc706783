// Boxes, sampling, windows written back, and other operators that have a row of their own.
#include "import/onnx/lower.h"

namespace brisk::onnx_import {
namespace {

using enum OpId;

void non_max_suppression(Lower& l) {
  ModeAttrs a;
  a.flag = l.i("center_point_box", 0);
  l.set(0, l.add(kNonMaxSuppression, a, l.inputs()));
}

// Up to opset 19 the modes were called by their two-dimensional names.
void grid_sample(Lower& l) {
  GridSampleAttrs a;
  a.mode = l.s("mode", "linear");
  if (a.mode == "bilinear") a.mode = "linear";
  if (a.mode == "bicubic") a.mode = "cubic";
  a.padding = l.s("padding_mode", "zeros");
  a.align_corners = l.i("align_corners", 0) != 0;
  l.set(0, l.add(kGridSample, a, l.inputs()));
}

void roi_align(Lower& l) {
  RoiAttrs a;
  a.height = l.i("output_height", 1);
  a.width = l.i("output_width", 1);
  a.sampling = l.i("sampling_ratio", 0);
  a.scale = l.f("spatial_scale", 1);
  std::string mode = l.s("mode", "avg"), coordinates = l.opset < 16 ? "output_half_pixel" : l.s("coordinate_transformation_mode", "half_pixel");
  if (mode != "avg" && mode != "max") return void(l.bad("mode '" + mode + "'"));
  if (coordinates != "half_pixel" && coordinates != "output_half_pixel") return void(l.bad("coordinate_transformation_mode '" + coordinates + "'"));
  a.max = mode == "max";
  a.half_pixel = coordinates == "half_pixel";
  l.set(0, l.add(kRoiAlign, a, l.inputs()));
}

void max_roi_pool(Lower& l) {
  RoiAttrs a;
  auto shape = l.ints("pooled_shape");
  if (shape.size() != 2) return void(l.bad("pooled_shape has " + std::to_string(shape.size()) + " numbers, wanted 2"));
  a.height = shape[0];
  a.width = shape[1];
  a.scale = l.f("spatial_scale", 1);
  a.max = true;
  l.set(0, l.add(kMaxRoiPool, a, l.inputs()));
}

void max_unpool(Lower& l) {
  WindowAttrs a = window_attrs(l);
  a.auto_pad = "";
  if (a.kernel.empty()) return void(l.bad("kernel_shape is missing"));
  l.set(0, l.add(kMaxUnpool, a, l.inputs()));
}

void col2im(Lower& l) {
  WindowAttrs a = window_attrs(l);
  a.kernel.clear();
  a.auto_pad = "";
  l.set(0, l.add(kCol2Im, a, l.inputs()));
}

// The number of offset groups follows from the shapes; one that contradicts them is an error.
void deform_conv(Lower& l) {
  WindowAttrs a = window_attrs(l);
  int64_t groups = l.i("offset_group", 1);
  if (groups < 1) return void(l.bad("offset_group is " + std::to_string(groups)));
  if (l.rank(l.in(1)) == 4 && l.rank(l.in(2)) == 4) {
    const Shape &w = l.type(l.in(1)).shape, &o = l.type(l.in(2)).shape;
    auto kh = w[2].constant(), kw = w[3].constant(), n = o[1].constant();
    if (kh && kw && n && (*n < groups || *n % groups != 0 || *n / groups != *kh * *kw * 2)) return void(l.bad("offset has " + std::to_string(*n) + " channels for " + std::to_string(groups) + " offset groups"));
  }
  a.kernel.clear();
  a.auto_pad = "";
  l.set(0, l.add(kDeformConv, a, l.inputs()));
}

void unique(Lower& l) {
  ModeAttrs a;
  a.axis = l.i("axis", 0);
  a.flag = l.i("sorted", 1);
  if (!l.attribute("axis")) a.mode = "flat";
  size_t outputs = l.wants(3) ? 4 : l.wants(2) ? 3 : l.wants(1) ? 2 : 1;
  auto out = l.add_n(kUnique, a, l.inputs(), outputs);
  for (size_t i = 0; i < outputs; ++i) l.set(i, out[i]);
}

void det(Lower& l) { lower_direct(l, kDet); }

void tf_idf(Lower& l) {
  NgramAttrs a;
  if (l.attribute("pool_strings")) return void(l.refuse("n-grams of strings"));
  a.mode = l.s("mode", "");
  a.min_length = l.i("min_gram_length", 1);
  a.max_length = l.i("max_gram_length", 1);
  a.max_skip = l.i("max_skip_count", 0);
  a.starts = l.ints("ngram_counts");
  a.columns = l.ints("ngram_indexes");
  a.pool = l.ints("pool_int64s");
  a.weights = l.floats("weights");
  l.set(0, l.add(kTfIdfVectorizer, a, l.inputs()));
}

void linear_attention(Lower& l) {
  LinearAttentionAttrs a;
  a.heads = l.i("q_num_heads", 0);
  a.kv_heads = l.i("kv_num_heads", 0);
  a.scale = l.f("scale", 0);
  std::string rule = l.s("update_rule", "gated_delta");
  if (rule != "linear" && rule != "gated" && rule != "delta" && rule != "gated_delta") return void(l.bad("update_rule '" + rule + "'"));
  a.gated = rule.starts_with("gated");
  a.delta = rule.ends_with("delta");
  auto out = l.add_n(kLinearAttention, a, l.inputs(), l.wants(1) ? 2 : 1);
  for (size_t i = 0; i < out.size(); ++i) l.set(i, out[i]);
}

}  // namespace

void register_vision(LowerTable& t) {
  t.insert({{"NonMaxSuppression", non_max_suppression}, {"GridSample", grid_sample}, {"RoiAlign", roi_align}, {"MaxRoiPool", max_roi_pool},
            {"MaxUnpool", max_unpool}, {"Col2Im", col2im}, {"DeformConv", deform_conv}, {"Unique", unique}, {"Det", det},
            {"TfIdfVectorizer", tf_idf}, {"LinearAttention", linear_attention}});
}

}  // namespace brisk::onnx_import
