// Pointwise operators, alone or in chains of any length, run as a little register machine over tiles of up to kTile
// elements: each instruction is one vector loop, registers stay in the first-level cache, so that a chain passes over
// memory once. Operands are broadcast to the result's shape; neighbouring axes that no operand tells apart are merged first.
// A program is immutable and may run on several threads.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "backend/cpu/light_table.h"
#include "backend/cpu/thread_pool.h"
#include "tensor/tensor.h"

namespace brisk::cpu {

// Registers [0, operands) are the operands, instruction i makes register operands + i.
struct TileInstruction {
  OpId op;
  int a = -1, b = -1, c = -1;  // -1: not used
  float alpha = 0, beta = 0;
  DType to = DType::kF32;      // Cast only
  int64_t flag = 0;            // Mod, IsInf
};

class TileProgram {
 public:
  // Null where an operator or type is not known. f16 and bf16 operands are computed in f32; the result is rounded to `result`.
  static std::unique_ptr<TileProgram> make(const LightTable& table, std::span<const DType> operands,
                                           std::span<const TileInstruction> code, DType result);

  // in[i] broadcasts to out's shape. `out` may lie on an operand of the same shape and element size.
  void run(std::span<const TensorView> in, const TensorView& out, ThreadPool& pool) const;

 private:
  struct Step {
    TileFn fn = nullptr;
    int a = -1, b = -1, c = -1;  // registers
    int slot = -1;               // buffer of the result; -1: the output itself
    float alpha = 0, beta = 0;
  };
  class Run;

  bool append(const LightTable& table, const TileInstruction& code);
  int push(TileFn fn, DType type, int a, int b = -1, int c = -1, float alpha = 0, float beta = 0);
  void assign_slots(size_t operands);

  std::vector<DType> types_;      // of registers
  std::vector<int> register_of_;  // instruction's number as the caller counts -> register
  std::vector<Step> steps_;       // step i makes register operands + i
  std::vector<TileFn> load_;      // of operands; null: as stored
  TileFn store_ = nullptr;        // of the result; null: as computed
  int slots_ = 0;
  double cost_ = 0;  // of one element, in simple vector instructions
};

}  // namespace brisk::cpu
