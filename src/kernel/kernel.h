// Kernels as data. A problem (operator, attributes, operand types and encodings) is matched against kernel descriptions;
// own kernels and vendor libraries are entries alike. Backends add theirs with add_kernels(Registry&).
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "op/op.h"
#include "tensor/device.h"
#include "tensor/tensor.h"

namespace brisk {

// One operand as selection sees it.
struct OperandDesc {
  Type type;
  Encoding encoding;         // of constants
  bool present = false;
  bool constant = false;     // known at build time: a packing may be asked for
  const Constant* value = nullptr;  // the constant itself at build time; null when an engine is loaded
};

struct ProblemDesc {
  OpId op;
  const Attrs* attrs = nullptr;
  std::vector<OperandDesc> inputs;
  std::vector<Type> outputs;

  template <class A> const A& get() const { return std::get<A>(*attrs); }
  bool has(size_t i) const { return i < inputs.size() && inputs[i].present; }
};

// Everything a running kernel may use besides its operands. Owned by the executor; one per stream.
struct KernelContext {
  void* backend = nullptr;  // what the backend's kernels agree on (cpu: its ThreadPool)
};

// Operands of one call. All addresses are resolved for the device. Constant operands that the kernel packs arrive as the
// packed bytes with the logical dtype and shape in the view.
struct KernelArgs {
  std::span<const TensorView> in;
  std::span<TensorView> out;
  const Attrs* attrs = nullptr;
  void* workspace = nullptr;
  int64_t workspace_bytes = 0;

  bool has(size_t i) const { return i < in.size() && in[i].present; }
  template <class A> const A& get() const { return std::get<A>(*attrs); }
};

using KernelFn = Status (*)(KernelContext&, const KernelArgs&);

struct KernelDesc {
  std::string id;       // unique and stable: "cpu.linear.int8.avx512_vnni"; stored in engines
  int version = 1;      // of packing and semantics: an engine names the version it was built for
  OpId op;
  // Instruction-set features the host must have, e.g. "avx512_vnni"; empty: none. Checked before `accepts`.
  std::vector<std::string> requires_isa;
  // Is this problem one the kernel computes? Must decide on dtypes, encodings, attributes, not on symbolic sizes alone.
  bool (*accepts)(const ProblemDesc&) = nullptr;
  KernelFn run = nullptr;
  // Larger is preferred where nothing has been timed. The reference backend uses 0.
  int priority = 0;
  // Reduction order and rounding. Kernels with equal strings give bit-equal results row by row; generative engines use
  // only kernels whose result for a row does not depend on the other rows.
  std::string numerics = "ref";
  bool row_independent = true;
  // Bit k: result 0 may lie on the bytes of operand k where that is of its shape and element size (other operands never lie
  // there): the kernel reads each of that operand's elements for the last time before it writes in its place.
  uint32_t in_place = 0;
  static constexpr uint32_t kAnyOperand = UINT32_MAX;
  // Scratch bytes for concrete shapes; null: none.
  int64_t (*workspace)(const KernelArgs&) = nullptr;
  // Operand index -> packed form; null where the operand is used as it is. Called at build time only. The bytes are
  // stored in the engine, 64-byte aligned; equal (constant, packing name) pairs are stored once.
  struct Packing {
    int operand;
    std::string name;  // identifies layout and parameters
    Result<std::vector<std::byte>> (*pack)(const ProblemDesc&, const Constant&);
    // Bytes pack() gives for this logical operand: the engine reader proves section sizes with it.
    int64_t (*bytes)(const ProblemDesc&, const OperandDesc&);
  };
  std::vector<Packing> packings;
};

class Registry {
 public:
  void add(KernelDesc d) { kernels_.push_back(std::move(d)); }
  // Features of this host that requires_isa is checked against (already capped by BRISK_MAX_ISA).
  void set_isa(std::vector<std::string> features) { isa_ = std::move(features); }
  const std::vector<std::string>& isa() const { return isa_; }

  // All kernels that can run the problem here, best priority first, ties in order of registration.
  std::vector<const KernelDesc*> candidates(const ProblemDesc& p) const;
  const KernelDesc* best(const ProblemDesc& p) const;
  const KernelDesc* find(std::string_view id) const;
  // Does any kernel exist for the problem? Passes ask before they fuse.
  bool supports(const ProblemDesc& p) const { return best(p) != nullptr; }
  // What of requires_isa the host lacks, for messages; empty if nothing.
  std::vector<std::string> missing_isa(const KernelDesc& d) const;
  std::span<const KernelDesc> all() const { return kernels_; }

 private:
  std::vector<KernelDesc> kernels_;
  std::vector<std::string> isa_;
};

}  // namespace brisk
