// What a node of TreeEnsemble asks: the comparisons of its operator's row.
#pragma once
#include <cstdint>

namespace brisk {

// 0 <=, 1 <, 2 >=, 3 >, 4 ==, 5 !=; 8 more: NaN is true.
template <class T> inline bool tree_holds(int64_t comparison, T x, T split) {
  if ((comparison & 8) && x != x) return true;
  switch (comparison & 7) {
    case 0: return x <= split;
    case 1: return x < split;
    case 2: return x >= split;
    case 3: return x > split;
    case 4: return x == split;
    default: return x != split;
  }
}

}  // namespace brisk
