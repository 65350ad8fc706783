// Pointwise instructions; included inside an ISA's namespace. Simple arithmetic is left to the compiler's vectoriser,
// elementary functions are written with the vector vocabulary. Semantics are those of backend/ref/pointwise.cpp.

#if defined(__clang__)
#define BRISK_LANES_LOOP _Pragma("clang loop vectorize(assume_safety) interleave(enable)")
#else
#define BRISK_LANES_LOOP _Pragma("GCC ivdep")
#endif

template <class T, class R, class F>
BRISK_INLINE void loop1(const TileArgs& t, F f) {
  const T* a = static_cast<const T*>(t.a);
  R* out = static_cast<R*>(t.out);
  const int64_t n = t.n;
  BRISK_LANES_LOOP
  for (int64_t i = 0; i < n; i++) out[i] = f(a[i]);
}
template <class T, class R, class F>
BRISK_INLINE void loop2(const TileArgs& t, F f) {
  const T *a = static_cast<const T*>(t.a), *b = static_cast<const T*>(t.b);
  R* out = static_cast<R*>(t.out);
  const int64_t n = t.n;
  BRISK_LANES_LOOP
  for (int64_t i = 0; i < n; i++) out[i] = f(a[i], b[i]);
}
template <class F>
BRISK_INLINE void vector_loop(const TileArgs& t, F f) {
  const float* a = static_cast<const float*>(t.a);
  float* out = static_cast<float*>(t.out);
  for_lanes(t.n, [&](int64_t i, int n) __attribute__((always_inline)) { vstoren(out + i, f(vloadn(a + i, n)), n); });
}
// Functions that only the C library has.
template <class F>
BRISK_INLINE void libm_loop(const TileArgs& t, F f) {
  const float* a = static_cast<const float*>(t.a);
  float* out = static_cast<float*>(t.out);
  for (int64_t i = 0; i < t.n; i++) out[i] = f(a[i]);
}
#define BRISK_TILE +[](const TileArgs& t)

// Arguments beyond the range of the short reduction go to the C library.
BRISK_INLINE void sine(const TileArgs& t, int quadrant) {
  const float* a = static_cast<const float*>(t.a);
  float* out = static_cast<float*>(t.out);
  VF top = vzero();
  for_lanes(t.n, [&](int64_t i, int n) __attribute__((always_inline)) {
    VF v = vabs(vloadn(a + i, n));
    top = vmax(top, vselect_lt(v, vset1(8192.0f), v, vset1(8192.0f)));
  });
  if (vreduce_max(top) < 8192.0f) {
    vector_loop(t, [quadrant](VF x) __attribute__((always_inline)) { return vsin_near(x, quadrant); });
  } else {
    for (int64_t i = 0; i < t.n; i++) out[i] = quadrant ? __builtin_cosf(a[i]) : __builtin_sinf(a[i]);
  }
}

// Powers by one constant exponent are what models contain: squares, roots, cubes.
BRISK_INLINE void power(const TileArgs& t) {
  const float *a = static_cast<const float*>(t.a), *b = static_cast<const float*>(t.b);
  float* out = static_cast<float*>(t.out);
  float e = t.n ? b[0] : 1;
  bool one = true;
  for (int64_t i = 1; i < t.n; i++) one &= b[i] == e;
  if (one && e == 2) return loop1<float, float>(t, [](float x) { return x * x; });
  if (one && e == 3) return loop1<float, float>(t, [](float x) { return x * x * x; });
  if (one && e == 1) return loop1<float, float>(t, [](float x) { return x; });
  if (one && e == -1) return loop1<float, float>(t, [](float x) { return 1.0f / x; });
  if (one && e == 0.5f)  // +0 for -0, and for minus infinity infinity, as pow has it
    return loop1<float, float>(t, [](float x) { return x == -__builtin_inff() ? __builtin_inff() : __builtin_sqrtf(x + 0.0f); });
  for (int64_t i = 0; i < t.n; i++) out[i] = __builtin_powf(a[i], b[i]);
}

template <class T> struct UnsignedOf { using type = T; };
BRISK_INLINE float magnitude(float x) { return __builtin_fabsf(x); }
BRISK_INLINE double magnitude(double x) { return __builtin_fabs(x); }
template <> struct UnsignedOf<int32_t> { using type = uint32_t; };
template <> struct UnsignedOf<int64_t> { using type = uint64_t; };

template <class T>
inline TileFn arithmetic(OpId op, int64_t flag) {
  using U = typename UnsignedOf<T>::type;
  constexpr bool fl = __is_floating_point(T);
  switch (op) {
    case OpId::kAdd: return BRISK_TILE { loop2<T, T>(t, [](T a, T b) { return static_cast<T>(static_cast<U>(a) + static_cast<U>(b)); }); };
    case OpId::kSub: return BRISK_TILE { loop2<T, T>(t, [](T a, T b) { return static_cast<T>(static_cast<U>(a) - static_cast<U>(b)); }); };
    case OpId::kMul: return BRISK_TILE { loop2<T, T>(t, [](T a, T b) { return static_cast<T>(static_cast<U>(a) * static_cast<U>(b)); }); };
    case OpId::kDiv:
      if constexpr (fl) return BRISK_TILE { loop2<T, T>(t, [](T a, T b) { return a / b; }); };
      else return BRISK_TILE {
        const T *a = static_cast<const T*>(t.a), *b = static_cast<const T*>(t.b);
        for (int64_t i = 0; i < t.n; i++)
          static_cast<T*>(t.out)[i] = b[i] == 0 ? 0 : b[i] == -1 ? static_cast<T>(U(0) - static_cast<U>(a[i])) : static_cast<T>(a[i] / b[i]);
      };
    case OpId::kMod:
      if constexpr (sizeof(T) == 8 && fl) {
        return nullptr;
      } else if constexpr (fl) {
        if (flag) return BRISK_TILE {
          const T *a = static_cast<const T*>(t.a), *b = static_cast<const T*>(t.b);
          for (int64_t i = 0; i < t.n; i++) static_cast<T*>(t.out)[i] = __builtin_fmodf(a[i], b[i]);
        };
        return BRISK_TILE {
          const T *a = static_cast<const T*>(t.a), *b = static_cast<const T*>(t.b);
          for (int64_t i = 0; i < t.n; i++) {
            T r = __builtin_fmodf(a[i], b[i]);
            static_cast<T*>(t.out)[i] = r == 0 ? __builtin_copysignf(0.0f, b[i]) : (r < 0) != (b[i] < 0) ? r + b[i] : r;
          }
        };
      } else {
        if (flag) return BRISK_TILE {
          const T *a = static_cast<const T*>(t.a), *b = static_cast<const T*>(t.b);
          for (int64_t i = 0; i < t.n; i++) static_cast<T*>(t.out)[i] = b[i] == 0 || b[i] == -1 ? 0 : static_cast<T>(a[i] % b[i]);
        };
        return BRISK_TILE {
          const T *a = static_cast<const T*>(t.a), *b = static_cast<const T*>(t.b);
          for (int64_t i = 0; i < t.n; i++) {
            T r = b[i] == 0 || b[i] == -1 ? 0 : static_cast<T>(a[i] % b[i]);
            static_cast<T*>(t.out)[i] = r != 0 && (r < 0) != (b[i] < 0) ? static_cast<T>(r + b[i]) : r;
          }
        };
      }
    // A NaN is the result, the first one if both are.
    case OpId::kMin: return BRISK_TILE { loop2<T, T>(t, [](T a, T b) { return ((a < b) | (a != a)) ? a : b; }); };
    case OpId::kMax: return BRISK_TILE { loop2<T, T>(t, [](T a, T b) { return ((a > b) | (a != a)) ? a : b; }); };
    case OpId::kPRelu: return BRISK_TILE { loop2<T, T>(t, [](T a, T b) { return a < T(0) ? static_cast<T>(static_cast<U>(a) * static_cast<U>(b)) : a; }); };
    case OpId::kAbs:
      if constexpr (fl) return BRISK_TILE { loop1<T, T>(t, [](T x) { return magnitude(x); }); };
      else return BRISK_TILE { loop1<T, T>(t, [](T x) { return x < 0 ? static_cast<T>(U(0) - static_cast<U>(x)) : x; }); };
    case OpId::kNeg:
      if constexpr (fl) return BRISK_TILE { loop1<T, T>(t, [](T x) { return T(0) - x; }); };
      else return BRISK_TILE { loop1<T, T>(t, [](T x) { return static_cast<T>(U(0) - static_cast<U>(x)); }); };
    case OpId::kSign: return BRISK_TILE { loop1<T, T>(t, [](T x) { return static_cast<T>((x > T(0)) - (x < T(0))); }); };
    case OpId::kRelu: return BRISK_TILE { loop1<T, T>(t, [](T x) { return x < T(0) ? T(0) : x; }); };
    default: return nullptr;
  }
}

template <class T>
inline TileFn comparison(OpId op) {
  switch (op) {
    case OpId::kEqual: return BRISK_TILE { loop2<T, uint8_t>(t, [](T a, T b) { return static_cast<uint8_t>(a == b); }); };
    case OpId::kLess: return BRISK_TILE { loop2<T, uint8_t>(t, [](T a, T b) { return static_cast<uint8_t>(a < b); }); };
    case OpId::kLessOrEqual: return BRISK_TILE { loop2<T, uint8_t>(t, [](T a, T b) { return static_cast<uint8_t>(a <= b); }); };
    case OpId::kGreater: return BRISK_TILE { loop2<T, uint8_t>(t, [](T a, T b) { return static_cast<uint8_t>(a > b); }); };
    case OpId::kGreaterOrEqual: return BRISK_TILE { loop2<T, uint8_t>(t, [](T a, T b) { return static_cast<uint8_t>(a >= b); }); };
    default: return nullptr;
  }
}

template <class T>
inline TileFn choice() {
  return BRISK_TILE {
    const uint8_t* c = static_cast<const uint8_t*>(t.a);
    const T *a = static_cast<const T*>(t.b), *b = static_cast<const T*>(t.c);
    T* out = static_cast<T*>(t.out);
    const int64_t n = t.n;
    BRISK_LANES_LOOP
    for (int64_t i = 0; i < n; i++) {
      T yes = a[i], no = b[i];
      out[i] = c[i] != 0 ? yes : no;
    }
  };
}

inline TileFn float_function(OpId op, int64_t flag) {
  switch (op) {
    case OpId::kExp: return BRISK_TILE { vector_loop(t, FExp{}); };
    case OpId::kLog: return BRISK_TILE { vector_loop(t, [](VF x) __attribute__((always_inline)) { return vlog(x); }); };
    case OpId::kSqrt: return BRISK_TILE { loop1<float, float>(t, [](float x) { return __builtin_sqrtf(x); }); };
    case OpId::kReciprocal: return BRISK_TILE { loop1<float, float>(t, [](float x) { return 1.0f / x; }); };
    case OpId::kSin: return BRISK_TILE { sine(t, 0); };
    case OpId::kCos: return BRISK_TILE { sine(t, 1); };
    case OpId::kTan: return BRISK_TILE { libm_loop(t, [](float x) { return __builtin_tanf(x); }); };
    case OpId::kAsin: return BRISK_TILE { libm_loop(t, [](float x) { return __builtin_asinf(x); }); };
    case OpId::kAcos: return BRISK_TILE { libm_loop(t, [](float x) { return __builtin_acosf(x); }); };
    case OpId::kAtan: return BRISK_TILE { libm_loop(t, [](float x) { return __builtin_atanf(x); }); };
    case OpId::kSinh: return BRISK_TILE { libm_loop(t, [](float x) { return __builtin_sinhf(x); }); };
    case OpId::kCosh: return BRISK_TILE { libm_loop(t, [](float x) { return __builtin_coshf(x); }); };
    case OpId::kAsinh: return BRISK_TILE { libm_loop(t, [](float x) { return __builtin_asinhf(x); }); };
    case OpId::kAcosh: return BRISK_TILE { libm_loop(t, [](float x) { return __builtin_acoshf(x); }); };
    case OpId::kAtanh: return BRISK_TILE { libm_loop(t, [](float x) { return __builtin_atanhf(x); }); };
    case OpId::kTanh: return BRISK_TILE { vector_loop(t, FTanh{}); };
    case OpId::kErf: return BRISK_TILE { vector_loop(t, FErf{}); };
    case OpId::kFloor: return BRISK_TILE { loop1<float, float>(t, [](float x) { return __builtin_floorf(x); }); };
    case OpId::kCeil: return BRISK_TILE { loop1<float, float>(t, [](float x) { return __builtin_ceilf(x); }); };
    case OpId::kRound: return BRISK_TILE { loop1<float, float>(t, [](float x) { return __builtin_nearbyintf(x); }); };
    case OpId::kSigmoid: return BRISK_TILE { vector_loop(t, FSigmoid{}); };
    case OpId::kSilu: return BRISK_TILE { vector_loop(t, FSilu{}); };
    case OpId::kSoftplus: return BRISK_TILE { vector_loop(t, [](VF x) __attribute__((always_inline)) { return vsoftplus(x); }); };
    case OpId::kSoftsign: return BRISK_TILE { loop1<float, float>(t, [](float x) { return x / (1.0f + __builtin_fabsf(x)); }); };
    case OpId::kHardSwish: return BRISK_TILE {
      loop1<float, float>(t, [](float x) {
        float c = x / 6.0f + 0.5f;
        c = c < 0.0f ? 0.0f : c;
        return x * (c > 1.0f ? 1.0f : c);
      });
    };
    case OpId::kMish: return BRISK_TILE { vector_loop(t, [](VF x) __attribute__((always_inline)) { return vmish(x); }); };
    case OpId::kGelu: return BRISK_TILE {
      if (t.alpha == 1) vector_loop(t, FGeluTanh{});
      else vector_loop(t, FGeluErf{});
    };
    case OpId::kLeakyRelu: return BRISK_TILE { float k = t.alpha; loop1<float, float>(t, [k](float x) { return x < 0 ? k * x : x; }); };
    case OpId::kThresholdedRelu: return BRISK_TILE { float k = t.alpha; loop1<float, float>(t, [k](float x) { return x > k ? x : 0.0f; }); };
    case OpId::kHardSigmoid: return BRISK_TILE {
      float k = t.alpha, d = t.beta;
      loop1<float, float>(t, [k, d](float x) {
        float c = k * x + d;
        c = c < 0.0f ? 0.0f : c;
        return c > 1.0f ? 1.0f : c;
      });
    };
    case OpId::kElu: return BRISK_TILE {
      VF k = vset1(t.alpha);
      vector_loop(t, [k](VF x) __attribute__((always_inline)) { return vselect_lt(x, vzero(), vmul(k, vexpm1(x)), x); });
    };
    case OpId::kSelu: return BRISK_TILE {
      VF k = vset1(t.alpha), d = vset1(t.beta);
      vector_loop(t, [k, d](VF x) __attribute__((always_inline)) { return vmul(d, vselect_lt(vzero(), x, x, vmul(k, vexpm1(x)))); });
    };
    case OpId::kCelu: return BRISK_TILE {
      VF k = vset1(t.alpha), inverse = vset1(1.0f / t.alpha);
      vector_loop(t, [k, inverse](VF x) __attribute__((always_inline)) {
        return vadd(vmax(vzero(), x), vmin(vzero(), vmul(k, vexpm1(vmul(x, inverse)))));
      });
    };
    case OpId::kPow: return BRISK_TILE { power(t); };
    case OpId::kIsNaN: return BRISK_TILE { loop1<float, uint8_t>(t, [](float x) { return static_cast<uint8_t>(x != x); }); };
    case OpId::kIsInf:
      if (flag != 3) return nullptr;
      return BRISK_TILE { loop1<float, uint8_t>(t, [](float x) { return static_cast<uint8_t>(__builtin_fabsf(x) == __builtin_inff()); }); };
    default: return arithmetic<float>(op, flag);
  }
}

inline TileFn bool_function(OpId op) {
  switch (op) {
    case OpId::kAnd: return BRISK_TILE { loop2<uint8_t, uint8_t>(t, [](uint8_t a, uint8_t b) { return static_cast<uint8_t>((a != 0) & (b != 0)); }); };
    case OpId::kOr: return BRISK_TILE { loop2<uint8_t, uint8_t>(t, [](uint8_t a, uint8_t b) { return static_cast<uint8_t>((a != 0) | (b != 0)); }); };
    case OpId::kXor: return BRISK_TILE { loop2<uint8_t, uint8_t>(t, [](uint8_t a, uint8_t b) { return static_cast<uint8_t>((a != 0) != (b != 0)); }); };
    case OpId::kNot: return BRISK_TILE { loop1<uint8_t, uint8_t>(t, [](uint8_t a) { return static_cast<uint8_t>(a == 0); }); };
    case OpId::kEqual: return BRISK_TILE { loop2<uint8_t, uint8_t>(t, [](uint8_t a, uint8_t b) { return static_cast<uint8_t>((a != 0) == (b != 0)); }); };
    default: return nullptr;
  }
}

inline TileFn pointwise(OpId op, DType t, int64_t flag) {
  if (op == OpId::kWhere) {
    switch (dtype_bits(t)) {
      case 8: return choice<uint8_t>();
      case 16: return choice<uint16_t>();
      case 32: return choice<uint32_t>();
      case 64: return choice<uint64_t>();
      default: return nullptr;
    }
  }
  switch (t) {
    case DType::kF32: if (TileFn f = comparison<float>(op)) return f; return float_function(op, flag);
    case DType::kF64:
      if (op == OpId::kIsNaN) return BRISK_TILE { loop1<double, uint8_t>(t, [](double x) { return static_cast<uint8_t>(x != x); }); };
      if (TileFn f = comparison<double>(op)) return f;
      return arithmetic<double>(op, flag);
    case DType::kI64: if (TileFn f = comparison<int64_t>(op)) return f; return arithmetic<int64_t>(op, flag);
    case DType::kI32: if (TileFn f = comparison<int32_t>(op)) return f; return arithmetic<int32_t>(op, flag);
    case DType::kU8: return comparison<uint8_t>(op);
    case DType::kBool: return bool_function(op);
    default: return nullptr;
  }
}

// --- Cast ---------------------------------------------------------------------------------------------------------------

// int_of of base/int_of.h: toward zero, the ends of the range beyond 64 bits, 0 for NaN.
BRISK_INLINE int64_t integer_of(float v) {
  if (v >= 0x1p63f) return INT64_MAX;
  if (v < -0x1p63f) return INT64_MIN;
  return v == v ? static_cast<int64_t>(v) : 0;
}
struct Bool { uint8_t v; };
template <class R, class T>
BRISK_INLINE R converted(T v) {
  if constexpr (__is_same(R, T)) return v;
  else if constexpr (__is_same(T, Bool)) return static_cast<R>(v.v != 0);
  else if constexpr (__is_same(R, Bool)) return {static_cast<uint8_t>(v != T(0))};
  else if constexpr (__is_floating_point(T) && !__is_floating_point(R)) return static_cast<R>(integer_of(v));
  else return static_cast<R>(v);
}
template <class T>
inline TileFn convert_from(DType to) {
  switch (to) {
    case DType::kF32: return BRISK_TILE { loop1<T, float>(t, [](T v) { return converted<float>(v); }); };
    case DType::kI64: return BRISK_TILE { loop1<T, int64_t>(t, [](T v) { return converted<int64_t>(v); }); };
    case DType::kI32: return BRISK_TILE { loop1<T, int32_t>(t, [](T v) { return converted<int32_t>(v); }); };
    case DType::kI8: return BRISK_TILE { loop1<T, int8_t>(t, [](T v) { return converted<int8_t>(v); }); };
    case DType::kU8: return BRISK_TILE { loop1<T, uint8_t>(t, [](T v) { return converted<uint8_t>(v); }); };
    case DType::kBool: return BRISK_TILE { loop1<T, Bool>(t, [](T v) { return converted<Bool>(v); }); };
    default: return nullptr;
  }
}

template <class Load>
BRISK_INLINE void widen(const TileArgs& t, Load load) {
  const uint16_t* a = static_cast<const uint16_t*>(t.a);
  float* out = static_cast<float*>(t.out);
  int64_t i = 0;
  for (; i + kLanes <= t.n; i += kLanes) vstore(out + i, load(a + i));
  if (i == t.n) return;
  uint16_t last[kLanes] = {};
  for (int64_t j = i; j < t.n; j++) last[j - i] = a[j];
  vstoren(out + i, load(last), static_cast<int>(t.n - i));
}
template <class Store>
BRISK_INLINE void narrow(const TileArgs& t, Store store) {
  const float* a = static_cast<const float*>(t.a);
  uint16_t* out = static_cast<uint16_t*>(t.out);
  int64_t i = 0;
  for (; i + kLanes <= t.n; i += kLanes) store(out + i, vload(a + i));
  if (i == t.n) return;
  uint16_t last[kLanes];
  store(last, vloadn(a + i, static_cast<int>(t.n - i)));
  for (int64_t j = i; j < t.n; j++) out[j] = last[j - i];
}

inline TileFn convert(DType from, DType to) {
  if (from == DType::kF16 && to == DType::kF32) return BRISK_TILE { widen(t, [](const uint16_t* p) __attribute__((always_inline)) { return vload_f16(p); }); };
  if (from == DType::kBF16 && to == DType::kF32) return BRISK_TILE { widen(t, [](const uint16_t* p) __attribute__((always_inline)) { return vload_bf16(p); }); };
  if (from == DType::kF32 && to == DType::kF16) return BRISK_TILE { narrow(t, [](uint16_t* p, VF v) __attribute__((always_inline)) { vstore_f16(p, v); }); };
  if (from == DType::kF32 && to == DType::kBF16) return BRISK_TILE { narrow(t, [](uint16_t* p, VF v) __attribute__((always_inline)) { vstore_bf16(p, v); }); };
  if (from == DType::kF32 && to == DType::kF64) return BRISK_TILE { loop1<float, double>(t, [](float v) { return static_cast<double>(v); }); };
  if (from == DType::kF64 && to == DType::kF32) return BRISK_TILE { loop1<double, float>(t, [](double v) { return static_cast<float>(v); }); };
  switch (from) {
    case DType::kF32: return convert_from<float>(to);
    case DType::kI64: return convert_from<int64_t>(to);
    case DType::kI32: return convert_from<int32_t>(to);
    case DType::kI8: return convert_from<int8_t>(to);
    case DType::kU8: return convert_from<uint8_t>(to);
    case DType::kBool: return convert_from<Bool>(to);
    default: return nullptr;
  }
}
