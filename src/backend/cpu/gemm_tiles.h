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
#pragma unroll
  for (int r = 0; r < R; r++)
#pragma unroll
    for (int v = 0; v < V; v++) y[r][v] = c.first ? vzero() : vload(c.acc + r * 32 + column<V>(v, first));
}
template <int R, int V>
BRISK_INLINE void store_acc(const VF (&y)[R][V], const TileCall& c, int first) {
#pragma unroll
  for (int r = 0; r < R; r++)
#pragma unroll
    for (int v = 0; v < V; v++) vstore(c.acc + r * 32 + column<V>(v, first), y[r][v]);
}

BRISK_INLINE int32_t load_word(const void* p) {
  int32_t x;
  __builtin_memcpy(&x, p, 4);
  return x;
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
