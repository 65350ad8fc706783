// LSTM and GRU with their usual functions (sigmoid, tanh), over float sequences. The inputs' products for all steps are one
// matrix product; a step multiplies the state by weights that lie in blocks of 16 units, the gates of a unit together.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "backend/cpu/kernel_table.h"
#include "backend/cpu/thread_pool.h"
#include "brisk/result.h"

namespace brisk::cpu {

// kGruLate: the reset gate scales the state's product; kGruEarly: it scales the state before the product.
enum class Cell : uint8_t { kLstm, kGruLate, kGruEarly };

struct RecurrentShape {
  Cell cell = Cell::kLstm;
  int64_t directions = 1, time = 0, batch = 0, input = 0, hidden = 0;
  bool backward = false, batch_first = false;  // backward: the only direction is
  bool round_state = false;                    // kLstm: products read the state rounded to ByteLevels
  bool bytes = false;                          // weights are multiples of one number a direction, by signed bytes

  int64_t gates() const { return cell == Cell::kLstm ? 4 : 3; }
  int64_t blocks() const { return (hidden + 15) / 16; }
  int64_t padded() const { return blocks() * 16; }
  // Of one direction: the packed input weights (panels of pack.h), the packed recurrent ones in floats.
  int64_t input_bytes() const;
  int64_t recurrent_count() const { return blocks() * hidden * gates() * 16; }
  int64_t recurrent_bytes() const { return bytes ? 64 + recurrent_count() : recurrent_count() * 4; }  // bytes: the number first
  int64_t workspace_bytes() const;  // any threads
};

// The number of which all weights are multiples by -127 to 127; 0 if there is none.
float byte_scale(const float* w, int64_t n);

// W [gates * hidden, input] of one direction into input_bytes(); R [gates * hidden, hidden] into recurrent_bytes():
// [block][k][gate][16], for kGruEarly first gates z and r, then [block][k][16] of the third.
Status pack_input_weights(const RecurrentShape& s, const float* w, std::byte* out);
void pack_recurrent_weights(const RecurrentShape& s, const float* r, std::byte* out);

struct RecurrentCall {
  RecurrentShape shape;
  const float* x = nullptr;            // [time, batch, input], or [batch, time, input]
  const std::byte* w = nullptr;        // packed, one direction after the other
  const std::byte* r = nullptr;        // packed
  const float* bias = nullptr;         // [directions, 2 * gates * hidden] or null
  const int32_t* lengths = nullptr;    // [batch] or null
  const float* h0 = nullptr;           // of y_h's shape, or null
  const float* c0 = nullptr;
  float* y = nullptr;                  // [time, directions, batch, hidden] ([batch, time, directions, hidden]) or null
  float* y_h = nullptr;                // [directions, batch, hidden] ([batch, directions, hidden]) or null
  float* y_c = nullptr;
  void* workspace = nullptr;           // 64-byte aligned
};
// Lengths must lie in [0, time].
void recurrent(const KernelTable& t, ThreadPool& pool, const RecurrentCall& c);

}  // namespace brisk::cpu
