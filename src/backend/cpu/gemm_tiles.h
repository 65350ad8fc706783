// Shared by the tile kernels; included inside an ISA's namespace.
//
// A tile is R rows by V vectors of one panel. With 16 lanes V = 2 covers the panel. With 8 lanes four vectors would leave
// room for 3 rows only, so larger tiles take two vectors, one of each granule, and pass over the panel twice.
constexpr int kWholePanel = 32 / kLanes;

// Output of vector v when the pass starts at lane `first` (0, or 8 in the second pass of 8-lane tiles).
template <int V>
BRISK_INLINE constexpr int column(int v, int first) { return v * (32 / V) + first; }

template <int R, int V>
BRISK_INLINE void load_acc(VF (&y)[R][V], const TileCall& c, int first) {
  BRISK_UNROLL
  for (int r = 0; r < R; r++)
    BRISK_UNROLL
    for (int v = 0; v < V; v++) y[r][v] = c.first ? vzero() : vload(c.acc + r * 32 + column<V>(v, first));
}
template <int R, int V>
BRISK_INLINE void store_acc(const VF (&y)[R][V], const TileCall& c, int first) {
  BRISK_UNROLL
  for (int r = 0; r < R; r++)
    BRISK_UNROLL
    for (int v = 0; v < V; v++) vstore(c.acc + r * 32 + column<V>(v, first), y[r][v]);
}

// The rows of a tile by threes: an x86 address reaches base, base + stride and base + 2 * stride, so 12 rows need five
// registers and no arithmetic.
template <int R, class T>
struct Rows {
  const T* base[(R + 2) / 3];
  int64_t stride;
  BRISK_INLINE Rows(const void* first, int64_t ld) : stride(ld) {
    BRISK_UNROLL
    for (int i = 0; i < (R + 2) / 3; i++) base[i] = static_cast<const T*>(first) + 3 * i * ld;
  }
  BRISK_INLINE const T* at(int r) const { return base[r / 3] + r % 3 * stride; }
  BRISK_INLINE void advance(int64_t n) {
    BRISK_UNROLL
    for (int i = 0; i < (R + 2) / 3; i++) base[i] += n;
  }
};

// Brings in this tile's share of the panel that comes next while [w, w + bytes) of the present one is worked on. Panels are
// short and lie apart, so the hardware's prefetchers start anew in each.
BRISK_INLINE void prefetch_next(const TileCall& c, const std::byte* w, int bytes) {
  const int lines = bytes / 64;
  for (int i = lines * c.next_first >> 8; i < lines * c.next_last >> 8; i++)
    __builtin_prefetch(c.next + (w - c.w) + i * 64, 0, 2);
}

// No load moves across. Without it compilers gather the broadcasts of a whole step in front and spill the accumulators.
BRISK_INLINE void load_fence() { asm volatile("" ::: "memory"); }

// y += x[row][0] * b for the rows of a tile.
template <int R, int V>
BRISK_INLINE void fma_step(VF (&y)[R][V], const VF (&b)[V], const Rows<R, float>& x, int64_t offset) {
  BRISK_UNROLL
  for (int r = 0; r < R; r++) {
    VF v1 = vset1(x.at(r)[offset]);
    BRISK_UNROLL
    for (int v = 0; v < V; v++) y[r][v] = vfma(v1, b[v], y[r][v]);
    load_fence();
  }
}

BRISK_INLINE int32_t load_word(const void* p) {
  int32_t x;
  __builtin_memcpy(&x, p, 4);
  return x;
}

// dot += 4 k of a granule pair of 8-bit weights, for the rows of a tile.
template <int R, int V>
BRISK_INLINE void dot_step(VI (&dot)[R][V], const std::byte* w, const Rows<R, int8_t>& x, int64_t offset) {
  Dot8 b[V];
  BRISK_UNROLL
  for (int v = 0; v < V; v++) b[v] = dot8(viload(w + column<V>(v, 0) * 4));
  BRISK_UNROLL
  for (int r = 0; r < R; r++) {
    VI four = viset1(load_word(x.at(r) + offset));
    BRISK_UNROLL
    for (int v = 0; v < V; v++) dot[r][v] = vdot(dot[r][v], b[v], four);
    load_fence();
  }
}

// Calls Tile::run<R, V>(call, first lane) for R = call.rows.
template <class Tile, int R>
BRISK_INLINE void run_rows(const TileCall& c) {
  if (c.rows == R) {
    if constexpr (kLanes == 16) {
      Tile::template run<R, 2>(c, 0);
    } else if constexpr (R <= Tile::kWholeRows) {
      Tile::template run<R, 4>(c, 0);
    } else {
      Tile::template run<R, 2>(c, 0);
      Tile::template run<R, 2>(c, 8);
    }
  } else if constexpr (R > 1) {
    run_rows<Tile, R - 1>(c);
  }
}
template <class Tile>
void run_tile(const TileCall& c) { run_rows<Tile, Tile::kMaxRows>(c); }
template <class Tile>
constexpr TileKernel tile_kernel() { return {&run_tile<Tile>, Tile::kMaxRows}; }
