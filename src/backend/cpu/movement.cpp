#include "backend/cpu/movement.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/light.h"

namespace brisk::cpu {
namespace {

struct Wide { uint64_t a, b; };  // 16 bytes
template <class T> struct Element { using type = T; };

template <class F> void with_element(int bytes, F&& f) {
  switch (bytes) {
    case 1: return f(Element<uint8_t>{});
    case 2: return f(Element<uint16_t>{});
    case 4: return f(Element<uint32_t>{});
    case 8: return f(Element<uint64_t>{});
    default: return f(Element<Wide>{});
  }
}

// Axes of one element go, neighbours that are one axis on both sides become one.
StridedCopy merged(const StridedCopy& c) {
  StridedCopy m = c;
  m.shape = m.from = m.to = Dims();
  for (int d = 0; d < c.shape.rank; ++d) {
    if (c.shape[d] == 1) continue;
    int last = m.shape.rank - 1;
    if (last >= 0 && m.from[last] == c.from[d] * c.shape[d] && m.to[last] == c.to[d] * c.shape[d]) {
      m.shape[last] *= c.shape[d];
      m.from[last] = c.from[d];
      m.to[last] = c.to[d];
    } else {
      m.shape.push(c.shape[d]), m.from.push(c.from[d]), m.to.push(c.to[d]);
    }
  }
  if (m.shape.rank == 0) m.shape.push(1), m.from.push(1), m.to.push(1);
  // A short run that stays together is one wider element.
  int last = m.shape.rank - 1;
  int64_t n = m.shape[last], bytes = n * m.bytes;
  bool fits = last > 0 && m.from[last] == 1 && m.to[last] == 1 && bytes <= 16 && (bytes & (bytes - 1)) == 0;
  for (int d = 0; fits && d < last; ++d) fits = m.from[d] % n == 0 && m.to[d] % n == 0;
  fits = fits && reinterpret_cast<uintptr_t>(m.src) % static_cast<uintptr_t>(std::min<int64_t>(bytes, 8)) == 0;
  if (fits) {
    for (int d = 0; d < last; ++d) m.from[d] /= n, m.to[d] /= n;
    m.shape.rank = m.from.rank = m.to.rank = last;
    m.bytes = static_cast<int>(bytes);
  }
  return m;
}

// Calls f(src, dst) for the indices [first, last) of the axes in `outer`, row-major.
struct Walk {
  const StridedCopy& c;
  Dims axes;  // which axes of c
  int64_t count() const {
    int64_t n = 1;
    for (int64_t d : axes) n *= c.shape[static_cast<int>(d)];
    return n;
  }
  template <class F> void operator()(int64_t first, int64_t last, F&& f) const {
    int64_t index[kMaxRank] = {}, from = 0, to = 0, rest = first;
    for (int i = axes.rank - 1; i >= 0; --i) {
      int d = static_cast<int>(axes[i]);
      index[i] = rest % c.shape[d];
      rest /= c.shape[d];
      from += index[i] * c.from[d], to += index[i] * c.to[d];
    }
    for (int64_t k = first; k < last; ++k) {
      f(c.src + from * c.bytes, c.dst + to * c.bytes);
      for (int i = axes.rank - 1; i >= 0; --i) {
        int d = static_cast<int>(axes[i]);
        from += c.from[d], to += c.to[d];
        if (++index[i] < c.shape[d]) break;
        from -= c.from[d] * c.shape[d], to -= c.to[d] * c.shape[d];
        index[i] = 0;
      }
    }
  }
};

constexpr int64_t kBlock = 64;  // columns of a transposed block: as many lines of the destination are open at once

template <class T>
void transpose_plain(const T* src, int64_t ld_src, T* dst, int64_t ld_dst, int64_t rows, int64_t cols) {
  for (int64_t r0 = 0; r0 < rows; r0 += 8)
    for (int64_t c = 0; c < cols; ++c)
      for (int64_t r = r0; r < std::min(rows, r0 + 8); ++r) dst[c * ld_dst + r] = src[r * ld_src + c];
}

// Axis e is dense in src, the last one in dst.
void transposed(const LightTable& table, const StridedCopy& c, int e, ThreadPool& pool) {
  int last = c.shape.rank - 1;
  Walk walk{c, {}};
  for (int d = 0; d < last; ++d)
    if (d != e) walk.axes.push(d);
  int64_t rows = c.shape[last], cols = c.shape[e], blocks = ceil_div(cols, kBlock), outer = walk.count();
  int64_t ld_src = c.from[last], ld_dst = c.to[e];
  for_ranges(pool, outer * blocks, static_cast<double>(rows * std::min(cols, kBlock)) * 4, [&](int64_t first, int64_t end) {
    for (int64_t i = first; i < end;) {
      int64_t o = i / blocks, b0 = i % blocks, b1 = std::min(blocks, b0 + (end - i));
      walk(o, o + 1, [&](const char* src, char* dst) {
        for (int64_t b = b0; b < b1; ++b) {
          int64_t c0 = b * kBlock, n = std::min(kBlock, cols - c0);
          with_element(c.bytes, [&]<class T>(Element<T>) {
            const T* s = reinterpret_cast<const T*>(src) + c0;
            T* t = reinterpret_cast<T*>(dst) + c0 * ld_dst;
            if constexpr (sizeof(T) == 4) table.transpose32(s, ld_src, t, ld_dst, rows, n);
            else transpose_plain(s, ld_src, t, ld_dst, rows, n);
          });
        }
      });
      i += b1 - b0;
    }
  });
}

}  // namespace

Dims dense_strides(const Dims& s) {
  Dims out;
  out.rank = s.rank;
  int64_t n = 1;
  for (int d = s.rank - 1; d >= 0; --d) {
    out[d] = n;
    n *= s[d];
  }
  return out;
}

void copy_rows(const char* src, int64_t ld_src, char* dst, int64_t ld_dst, int64_t bytes, int64_t rows, ThreadPool& pool) {
  if (bytes == 0 || rows == 0) return;
  if (ld_src == bytes && ld_dst == bytes) bytes *= rows, rows = 1;
  if (rows == 1) {
    constexpr int64_t kPiece = 16384;
    for_ranges(pool, ceil_div(bytes, kPiece), kPiece / 4, [&](int64_t first, int64_t last) {
      int64_t at = first * kPiece, end = std::min(bytes, last * kPiece);
      std::memcpy(dst + at, src + at, static_cast<size_t>(end - at));
    });
    return;
  }
  for_ranges(pool, rows, 20 + static_cast<double>(bytes) / 4, [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) std::memcpy(dst + r * ld_dst, src + r * ld_src, static_cast<size_t>(bytes));
  });
}

void strided_copy(const LightTable& table, const StridedCopy& copy, ThreadPool& pool) {
  if (copy.shape.count() == 0) return;
  StridedCopy c = merged(copy);
  int last = c.shape.rank - 1;
  int64_t n = c.shape[last], from = c.from[last], to = c.to[last];
  if (from != 1 && to == 1 && n > 1)
    for (int d = 0; d < last; ++d)
      if (c.from[d] == 1) return transposed(table, c, d, pool);
  Walk walk{c, {}};
  for (int d = 0; d < last; ++d) walk.axes.push(d);
  if (from == 1 && to == 1 && last <= 1)
    return copy_rows(c.src, last ? c.from[0] * c.bytes : 0, c.dst, last ? c.to[0] * c.bytes : 0, n * c.bytes, last ? c.shape[0] : 1, pool);
  for_ranges(pool, walk.count(), 20 + static_cast<double>(n) * (from == 1 ? c.bytes / 4.0 : 4), [&](int64_t first, int64_t end) {
    with_element(c.bytes, [&]<class T>(Element<T>) {
      walk(first, end, [&](const char* s, char* d) {
        const T* src = reinterpret_cast<const T*>(s);
        T* dst = reinterpret_cast<T*>(d);
        if (from == 1 && to == 1) std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(T));
        else if (from == 0 && to == 1) std::fill_n(dst, n, *src);
        else for (int64_t i = 0; i < n; ++i) dst[i * to] = src[i * from];
      });
    });
  });
}

}  // namespace brisk::cpu
