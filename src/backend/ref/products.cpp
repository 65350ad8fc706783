// Matrix products and Einsum. Sums of floats are taken in double.
#include <algorithm>
#include <array>
#include <vector>

#include "backend/ref/util.h"

namespace brisk::ref {
namespace {

// One product [m, k] x [k, n], row by row, so that the inner loop runs along rows of b and of the result.
template <class T, class S> void product(const T* a, const T* b, int64_t m, int64_t k, int64_t n, std::vector<S>& row, T* y) {
  row.resize(static_cast<size_t>(n));
  for (int64_t i = 0; i < m; ++i) {
    std::fill(row.begin(), row.end(), S(0));
    for (int64_t p = 0; p < k; ++p) {
      S v = static_cast<S>(static_cast<Acc<T>>(a[i * k + p]));
      for (int64_t j = 0; j < n; ++j) row[static_cast<size_t>(j)] += v * static_cast<S>(static_cast<Acc<T>>(b[p * n + j]));
    }
    for (int64_t j = 0; j < n; ++j) y[i * n + j] = static_cast<T>(static_cast<Acc<T>>(row[static_cast<size_t>(j)]));
  }
}

template <class T> using Wide = std::conditional_t<std::is_floating_point_v<Acc<T>>, double, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;

// Shapes of a batched product: operands seen as [batch..., m, k] and [batch..., k, n].
struct Batched {
  Dims batch, a_strides, b_strides;  // strides in whole matrices
  int64_t m, k, n;
  Batched(const Dims& a, const Dims& b, const Dims& y) {
    m = a.rank > 1 ? a[a.rank - 2] : 1;
    k = a[a.rank - 1];
    n = b.rank > 1 ? b[b.rank - 1] : 1;
    int axes = y.rank - (a.rank > 1 ? 1 : 0) - (b.rank > 1 ? 1 : 0);
    auto leading = [](const Dims& s) {
      Dims d;
      for (int i = 0; i + 2 < s.rank; ++i) d.push(s[i]);
      return d;
    };
    for (int i = 0; i < axes; ++i) batch.push(y[i]);
    a_strides = broadcast_strides(leading(a), batch);
    b_strides = broadcast_strides(leading(b), batch);
  }
};

Status check_inner(const TensorView& a, const TensorView& b) {
  int64_t k = a.shape[a.shape.rank - 1], other = b.shape[b.shape.rank > 1 ? b.shape.rank - 2 : 0];
  if (k == other) return {};
  return invalid("MatMul: inner sizes " + std::to_string(k) + " and " + std::to_string(other));
}

Status run_matmul(KernelContext&, const KernelArgs& k) {
  BRISK_TRY(same_dtype(k, {0, 1}));
  BRISK_TRY(check_inner(k.in[0], k.in[1]));
  Batched s(k.in[0].shape, k.in[1].shape, k.out[0].shape);
  return dispatch_number(k.in[0].dtype, [&]<class T>(Tag<T>) -> Status {
    std::vector<Wide<T>> row;
    T* y = k.out[0].as<T>();
    Dims strides[] = {s.a_strides, s.b_strides};
    walk(s.batch, strides, [&](int64_t i, int64_t j) {
      product<T, Wide<T>>(k.in[0].as<T>() + i * s.m * s.k, k.in[1].as<T>() + j * s.k * s.n, s.m, s.k, s.n, row, y);
      y += s.m * s.n;
    });
    return {};
  });
}

Status run_gemm(KernelContext&, const KernelArgs& k) {
  BRISK_TRY(same_dtype(k, {0, 1, 2}));
  const auto& g = k.get<GemmAttrs>();
  const TensorView &a = k.in[0], &b = k.in[1], &y = k.out[0];
  int64_t m = y.shape[0], n = y.shape[1], inner = a.shape[g.trans_a ? 0 : 1];
  return dispatch_number(a.dtype, [&]<class T>(Tag<T>) -> Status {
    using S = Wide<T>;
    Dims c_strides = k.has(2) ? broadcast_strides(k.in[2].shape, y.shape) : Dims{0, 0};
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        S sum = 0;
        for (int64_t p = 0; p < inner; ++p)
          sum += static_cast<S>(static_cast<Acc<T>>(a.as<T>()[g.trans_a ? p * m + i : i * inner + p])) *
                 static_cast<S>(static_cast<Acc<T>>(b.as<T>()[g.trans_b ? j * inner + p : p * n + j]));
        double v = static_cast<double>(g.alpha) * static_cast<double>(sum);
        if (k.has(2)) v += static_cast<double>(g.beta) * static_cast<double>(static_cast<Acc<T>>(k.in[2].as<T>()[i * c_strides[0] + j * c_strides[1]]));
        y.as<T>()[i * n + j] = static_cast<T>(static_cast<Acc<T>>(v));
      }
    return {};
  });
}

// Zero point of row or column i; one for all if there is one.
int32_t zero_point(const KernelArgs& k, size_t operand, int64_t i) {
  if (!k.has(operand)) return 0;
  const TensorView& z = k.in[operand];
  return static_cast<int32_t>(load_int(z.data, z.dtype, z.count() == 1 ? 0 : i));
}

Status run_matmul_integer(KernelContext&, const KernelArgs& k) {
  const TensorView &a = k.in[0], &b = k.in[1];
  BRISK_TRY(check_inner(a, b));
  Batched s(a.shape, b.shape, k.out[0].shape);
  // Zero points: one, a vector of rows or columns, or one for each row (column) of each matrix of the batch.
  int64_t a_zeros = k.has(2) ? k.in[2].count() : 1, b_zeros = k.has(3) ? k.in[3].count() : 1;
  if ((a_zeros != 1 && a_zeros % s.m != 0) || (b_zeros != 1 && b_zeros % s.n != 0)) return invalid("MatMulInteger: zero points do not fit rows and columns");
  std::vector<int32_t> row_a(static_cast<size_t>(s.k)), matrix_b(static_cast<size_t>(s.k * s.n));
  std::vector<uint32_t> sums(static_cast<size_t>(s.n));
  int32_t* y = k.has(4) ? nullptr : k.out[0].as<int32_t>();
  float* scaled = k.has(4) ? k.out[0].as<float>() : nullptr;
  int64_t scales = k.has(4) ? k.in[4].count() : 1;
  if ((scales != 1 && scales != s.n) || (k.has(5) && k.in[5].count() != s.n)) return invalid("MatMulInteger: scale or bias does not fit the columns");
  Dims strides[] = {s.a_strides, s.b_strides};
  walk(s.batch, strides, [&](int64_t at, int64_t bt) {
    for (int64_t i = 0; i < s.k * s.n; ++i)
      matrix_b[static_cast<size_t>(i)] = static_cast<int32_t>(load_int(b.data, b.dtype, bt * s.k * s.n + i)) - zero_point(k, 3, b_zeros > s.n ? bt * s.n + i % s.n : i % s.n);
    for (int64_t i = 0; i < s.m; ++i) {
      int32_t za = zero_point(k, 2, a_zeros > s.m ? at * s.m + i : i);
      for (int64_t p = 0; p < s.k; ++p) row_a[static_cast<size_t>(p)] = static_cast<int32_t>(load_int(a.data, a.dtype, (at * s.m + i) * s.k + p)) - za;
      std::fill(sums.begin(), sums.end(), 0u);
      for (int64_t p = 0; p < s.k; ++p) {
        auto u = static_cast<uint32_t>(row_a[static_cast<size_t>(p)]);
        const int32_t* from = matrix_b.data() + p * s.n;
        for (int64_t j = 0; j < s.n; ++j) sums[static_cast<size_t>(j)] += u * static_cast<uint32_t>(from[j]);  // sums wrap
      }
      for (int64_t j = 0; j < s.n; ++j) {
        auto v = static_cast<int32_t>(sums[static_cast<size_t>(j)]);
        if (y) *y++ = v;
        else *scaled++ = static_cast<float>(v) * k.in[4].as<float>()[scales == 1 ? 0 : j] + (k.has(5) ? k.in[5].as<float>()[j] : 0.0f);
      }
    }
  });
  return {};
}

// Every index of the equation is an axis of one big loop; the operands and the result are read with their own strides.
Status run_einsum(KernelContext&, const KernelArgs& k) {
  for (size_t i = 1; i < k.in.size(); ++i) BRISK_TRY(same_dtype(k, {0, i}));
  const std::string& equation = k.get<ModeAttrs>().mode;
  size_t arrow = equation.find("->");
  std::string letters;  // axes of the loop: those of the result first
  std::array<int64_t, 256> size{};
  auto expanded = [&](const std::string& term, int rank) {  // '.' becomes as many control characters as it has axes, the last is 1
    std::string out;
    int dots = rank - static_cast<int>(std::count_if(term.begin(), term.end(), [](char c) { return c != '.'; }));
    for (char c : term) {
      if (c != '.') { out += c; continue; }
      for (int i = dots; i > 0; --i) out += static_cast<char>(i);
    }
    return out;
  };
  std::vector<std::string> terms;
  size_t at = 0;
  for (const TensorView& x : k.in) {
    size_t end = std::min(equation.find(',', at), arrow);
    terms.push_back(expanded(equation.substr(at, end - at), x.shape.rank));
    at = end + 1;
    for (int d = 0; d < x.shape.rank; ++d) {
      auto c = static_cast<unsigned char>(terms.back()[static_cast<size_t>(d)]);
      if (size[c] != 0 && size[c] != 1 && x.shape[d] != 1 && size[c] != x.shape[d]) return invalid("Einsum: an index has two sizes");
      if (size[c] <= 1) size[c] = x.shape[d];
    }
  }
  std::string result = expanded(equation.substr(arrow + 2), k.out[0].shape.rank);
  letters = result;
  for (const std::string& t : terms)
    for (char c : t)
      if (letters.find(c) == std::string::npos) letters += c;
  std::vector<int64_t> extent;
  for (char c : letters) extent.push_back(size[static_cast<unsigned char>(c)]);
  std::vector<std::vector<int64_t>> strides;
  for (size_t i = 0; i < terms.size(); ++i) {
    Dims own = strides_of(k.in[i].shape);
    std::vector<int64_t>& s = strides.emplace_back(letters.size(), 0);
    for (size_t d = 0; d < terms[i].size(); ++d)
      if (k.in[i].shape[static_cast<int>(d)] != 1) s[letters.find(terms[i][d])] += own[static_cast<int>(d)];
  }
  int64_t inner = 1;
  for (size_t i = result.size(); i < letters.size(); ++i) inner *= extent[i];
  return dispatch_number(k.in[0].dtype, [&]<class T>(Tag<T>) -> Status {
    for (int64_t o = 0, n = k.out[0].count(); o < n; ++o) {
      Wide<T> sum = 0;
      for (int64_t r = 0; r < inner; ++r) {
        Wide<T> term = 1;
        for (size_t i = 0; i < terms.size(); ++i) {
          int64_t place = 0, rest = o * inner + r;
          for (size_t d = letters.size(); d-- > 0;) {
            place += rest % extent[d] * strides[i][d];
            rest /= extent[d];
          }
          term *= static_cast<Wide<T>>(static_cast<Acc<T>>(k.in[i].as<T>()[place]));
        }
        sum += term;
      }
      k.out[0].as<T>()[o] = static_cast<T>(static_cast<Acc<T>>(sum));
    }
    return {};
  });
}

// Elimination with the largest pivot of each column.
double determinant(std::vector<double>& a, int64_t n) {
  double det = 1;
  auto at = [&](int64_t i, int64_t j) -> double& { return a[static_cast<size_t>(i * n + j)]; };
  for (int64_t c = 0; c < n; ++c) {
    int64_t pivot = c;
    for (int64_t i = c + 1; i < n; ++i)
      if (std::fabs(at(i, c)) > std::fabs(at(pivot, c))) pivot = i;
    if (at(pivot, c) == 0) return 0;
    if (pivot != c) {
      det = -det;
      for (int64_t j = c; j < n; ++j) std::swap(at(c, j), at(pivot, j));
    }
    det *= at(c, c);
    for (int64_t i = c + 1; i < n; ++i) {
      double f = at(i, c) / at(c, c);
      for (int64_t j = c; j < n; ++j) at(i, j) -= f * at(c, j);
    }
  }
  return det;
}

Status run_det(KernelContext&, const KernelArgs& k) {
  const TensorView &x = k.in[0], &y = k.out[0];
  if (!is_float(x.dtype)) return no_dtype(x.dtype);
  int64_t n = x.shape[x.shape.rank - 1];
  if (x.shape[x.shape.rank - 2] != n) return invalid("Det: matrices of " + to_string(x.shape) + " are not square");
  std::vector<double> a(static_cast<size_t>(n * n));
  for (int64_t m = 0; m < y.count(); ++m) {
    for (int64_t i = 0; i < n * n; ++i) a[static_cast<size_t>(i)] = load_number(x, m * n * n + i);
    store_number(y, m, determinant(a, n));
  }
  return {};
}

}  // namespace

void add_products(Registry& r) {
  add_plain(r, OpId::kMatMul, run_matmul);
  add_plain(r, OpId::kGemm, run_gemm);
  add_plain(r, OpId::kMatMulInteger, run_matmul_integer);
  add_plain(r, OpId::kEinsum, run_einsum);
  add_plain(r, OpId::kDet, run_det);
}

}  // namespace brisk::ref
