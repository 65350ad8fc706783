// Runs one operator by the reference kernel and by the CPU backend's, on 1 to 3 threads, and compares the results.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "backend/cpu/cpu.h"
#include "backend/ref/ref.h"
#include "base/half.h"

namespace brisk {

// A tensor with memory of its own, 64-byte aligned at its first byte plus `lead`.
struct TestTensor {
  TensorView view;
  std::shared_ptr<std::vector<std::byte>> memory;
  bool constant = false;  // known at build time: kernels may pack it

  TestTensor() = default;
  TestTensor(DType t, const Dims& shape) : memory(std::make_shared<std::vector<std::byte>>()) {
    auto bytes = static_cast<size_t>(dtype_bytes(t, shape.count()));
    memory->resize(bytes + 128);
    auto at = reinterpret_cast<uintptr_t>(memory->data());
    view = TensorView(memory->data() + (64 - at % 64) % 64, t, shape);
  }
  double number(int64_t i) const {
    if (view.dtype == DType::kF64) return view.as<double>()[i];
    return is_float(view.dtype) ? static_cast<double>(load_float(view.data, view.dtype, i)) : static_cast<double>(load_int(view.data, view.dtype, i));
  }
};

inline TestTensor random_tensor(DType t, const Dims& shape, unsigned seed, double low = -3, double high = 3) {
  TestTensor out(t, shape);
  std::mt19937 rng(seed);
  std::uniform_real_distribution<double> draw(low, high);
  for (int64_t i = 0; i < shape.count(); ++i) {
    double v = draw(rng);
    if (t == DType::kF64) out.view.as<double>()[i] = v;
    else if (is_float(t)) store_float(out.view.data, t, i, static_cast<float>(v));
    else if (t == DType::kBool) out.view.as<uint8_t>()[i] = v > 0;
    else if (t == DType::kI64 || t == DType::kU64) out.view.as<int64_t>()[i] = static_cast<int64_t>(std::floor(v));
    else store_float(out.view.data, t, i, static_cast<float>(std::floor(v)));
  }
  return out;
}
template <class T> TestTensor tensor_of(DType t, const Dims& shape, const std::vector<T>& values) {
  TestTensor out(t, shape);
  if (!values.empty()) std::memcpy(out.view.data, values.data(), values.size() * sizeof(T));
  return out;
}
inline TestTensor ints(const std::vector<int64_t>& v) { return tensor_of(DType::kI64, {static_cast<int64_t>(v.size())}, v); }

class OpCheck {
 public:
  OpCheck() {
    ref::add_kernels(ref_);
    cpu::add_kernels(cpu_);
  }

  // The reference kernel's first result.
  std::vector<double> reference(OpId op, const Attrs& attrs, const std::vector<TestTensor>& in) const {
    ProblemDesc problem{op, &attrs, {}, {}};
    std::vector<Type> types = types_of(in, problem);
    std::vector<const Type*> given;
    for (Type& t : types) given.push_back(&t);
    auto results = infer_types(op, attrs, given, 1);
    EXPECT_TRUE(results.ok()) << op_name(op);
    if (!results.ok()) return {};
    problem.outputs = *results;
    const KernelDesc* kernel = ref_.best(problem);
    EXPECT_NE(kernel, nullptr) << op_name(op);
    if (!kernel) return {};
    cpu::ThreadPool one(1);
    auto out = call(*kernel, attrs, in, *results, one);
    std::vector<double> numbers;
    for (int64_t i = 0; i < out[0].view.count(); ++i) numbers.push_back(out[0].number(i));
    return numbers;
  }

  // `tolerance`: of the largest number of each float result; integers must be equal.
  void operator()(OpId op, const Attrs& attrs, const std::vector<TestTensor>& in, int outputs = 1, double tolerance = 2e-6,
                  bool must_have_kernel = true) {
    ProblemDesc problem{op, &attrs, {}, {}};
    std::vector<Type> types = types_of(in, problem);
    std::vector<const Type*> given;
    for (size_t i = 0; i < in.size(); ++i) given.push_back(in[i].view.present ? &types[i] : nullptr);
    auto results = infer_types(op, attrs, given, outputs, nullptr, [&](int i) { return in[static_cast<size_t>(i)].view.present ? &in[static_cast<size_t>(i)].view : nullptr; });
    ASSERT_TRUE(results.ok()) << op_name(op) << ": " << results.error().message;
    problem.outputs = *results;
    const KernelDesc *reference = ref_.best(problem), *kernel = cpu_.best(problem);
    ASSERT_NE(reference, nullptr) << op_name(op);
    if (!kernel) {
      EXPECT_FALSE(must_have_kernel) << "no kernel for " << op_name(op) << " of " << to_string(types[0]);
      return;
    }
    cpu::ThreadPool one(1);
    auto want = call(*reference, attrs, in, *results, one);
    for (int threads = 1; threads <= 3; ++threads) {
      cpu::ThreadPool pool(threads);
      auto got = call(*kernel, attrs, in, *results, pool);
      for (size_t o = 0; o < want.size(); ++o) compare(op_name(op), want[o], got[o], tolerance, threads);
      for (size_t i = 0; i < in.size() && i < 32; ++i) in_place(*kernel, attrs, in, *results, pool, i, got);
    }
    for (size_t i = 0; i < in.size() && i < 32; ++i) in_place(*reference, attrs, in, *results, one, i, want);
  }

 private:
  static std::vector<Type> types_of(const std::vector<TestTensor>& in, ProblemDesc& problem) {
    std::vector<Type> types(in.size());
    for (size_t i = 0; i < in.size(); ++i) {
      OperandDesc d;
      d.present = in[i].view.present;
      if (d.present) {
        types[i].dtype = in[i].view.dtype;
        types[i].shape.assign(in[i].view.shape.begin(), in[i].view.shape.end());
        d.type = types[i];
        d.constant = in[i].constant;
      }
      problem.inputs.push_back(d);
    }
    return types;
  }

  // Result 0 on operand i's bytes, if the kernel says that it may lie there: the same bits.
  static void in_place(const KernelDesc& d, const Attrs& attrs, std::vector<TestTensor> in, const std::vector<Type>& types, cpu::ThreadPool& pool,
                       size_t i, const std::vector<TestTensor>& want) {
    const TensorView &x = in[i].view, &y = want[0].view;
    if (!(d.in_place >> i & 1) || !x.present || !(x.shape == y.shape) || dtype_bits(x.dtype) != dtype_bits(y.dtype)) return;
    TestTensor both(x.dtype, x.shape);
    std::memcpy(both.view.data, x.data, static_cast<size_t>(x.bytes()));
    in[i] = both;
    auto got = call(d, attrs, in, types, pool, &both);
    for (size_t o = 0; o < want.size(); ++o)
      ASSERT_EQ(std::memcmp(want[o].view.data, got[o].view.data, static_cast<size_t>(want[o].view.bytes())), 0)
          << d.id << to_string(y.shape) << " over operand " << i << " on " << pool.size() << " threads";
  }

  static std::vector<TestTensor> call(const KernelDesc& d, const Attrs& attrs, const std::vector<TestTensor>& in, const std::vector<Type>& types,
                                      cpu::ThreadPool& pool, const TestTensor* over = nullptr) {
    std::vector<TestTensor> out;
    for (const Type& t : types) {
      Dims shape;
      for (const Dim& n : t.shape) shape.push(n.constant().value_or(0));
      if (over && out.empty()) {
        out.push_back(*over);
        out.back().view.dtype = t.dtype;
        continue;
      }
      out.emplace_back(t.dtype, shape);
      std::memset(out.back().view.data, 0x5a, static_cast<size_t>(out.back().view.bytes()));
    }
    std::vector<TensorView> ins, outs;
    for (auto& v : in) ins.push_back(v.view);
    for (auto& v : out) outs.push_back(v.view);
    std::vector<std::vector<std::byte>> packed;
    packed.reserve(d.packings.size());
    for (auto& p : d.packings) {
      const TestTensor& t = in[static_cast<size_t>(p.operand)];
      if (!t.constant) continue;
      Constant c;
      c.dtype = t.view.dtype, c.shape = t.view.shape;
      c.data.bytes = {static_cast<const std::byte*>(t.view.data), static_cast<size_t>(t.view.bytes())};
      auto bytes = p.pack({d.op, &attrs, {}, types}, c);
      EXPECT_TRUE(bytes.ok()) << d.id;
      if (!bytes.ok()) return out;
      packed.push_back(std::move(*bytes));
      ins[static_cast<size_t>(p.operand)].data = packed.back().data();
    }
    KernelArgs a{ins, outs, &attrs, nullptr, 0};
    std::vector<std::byte> scratch;
    if (d.workspace) {
      a.workspace_bytes = d.workspace(a);
      scratch.resize(static_cast<size_t>(a.workspace_bytes) + 64);
      a.workspace = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;
    }
    KernelContext kc{&pool};
    Status s = d.run(kc, a);
    EXPECT_TRUE(s.ok()) << d.id << ": " << s.error().message;
    return out;
  }

  static void compare(const char* op, const TestTensor& want, const TestTensor& got, double tolerance, int threads) {
    double largest = 0;
    for (int64_t i = 0; i < want.view.count(); ++i)
      if (double v = std::fabs(want.number(i)); std::isfinite(v)) largest = std::max(largest, v);
    if (!is_float(want.view.dtype)) tolerance = 0;
    if (want.view.dtype == DType::kF16) tolerance = std::max(tolerance, 1e-3);
    if (want.view.dtype == DType::kBF16) tolerance = std::max(tolerance, 8e-3);
    for (int64_t i = 0; i < want.view.count(); ++i) {
      double a = want.number(i), b = got.number(i);
      bool same = a == b || (std::isnan(a) && std::isnan(b)) || std::fabs(a - b) <= tolerance * largest;
      ASSERT_TRUE(same) << op << to_string(want.view.shape) << " on " << threads << " threads, element " << i << ": " << b << ", ref " << a;
    }
  }

  Registry ref_, cpu_;
};

}  // namespace brisk
