#include "convert/axes.h"

#include <algorithm>

namespace brisk::convert {
namespace {

// n, if the size is n * rows for a whole number n.
std::optional<int64_t> multiple_of(const Dim& size, const Dim& rows) {
  auto n = Dim::floor_div(size, rows).constant();
  return n && *n >= 1 && Dim(*n) * rows == size ? n : std::nullopt;
}

// Products of the sizes in front of the token axis (the batch among them) and behind it (parts of a token among them).
std::pair<Dim, Dim> round_token(const Type& t, const Axes& a, const DecoderIo& io) {
  Dim before(1), behind(a.multiple);
  if (a.role[static_cast<size_t>(a.token)] == Role::kRows) before = io.batch;
  for (int i = 0; i < t.rank(); ++i) {
    const Dim& d = t.shape[static_cast<size_t>(i)];
    if (i < a.token) before = before * d;
    if (i > a.token) behind = behind * d;
  }
  return {before, behind};
}

}  // namespace

int Axes::ragged(int axis) const {
  if (axis == token) return 0;
  int at = 1;
  for (int i = 0; i < axis; ++i) at += role[static_cast<size_t>(i)] == Role::kOther;
  return role[static_cast<size_t>(axis)] == Role::kOther ? at : -1;
}

Result<Axes> axes_of(const Type& t, const DecoderIo& io) {
  if (!t.ranked) return unsupported("has no known rank");
  const Dim tokens = Dim::symbol(kTokens), rows = io.batch * tokens;
  Axes a;
  a.role.assign(t.shape.size(), Role::kOther);
  for (size_t i = 0; i < t.shape.size(); ++i) {
    const Dim& d = t.shape[i];
    bool symbolic_batch = io.batch.as_symbol().has_value();
    auto n = multiple_of(d, rows), parts = multiple_of(d, tokens);
    bool token = parts || n;
    if (token && a.token >= 0) return unsupported("has two axes of tokens: " + to_string(t));
    if (token) a.token = static_cast<int>(i);
    if (d == tokens) a.role[i] = symbolic_batch ? Role::kToken : i == 0 ? Role::kRows : Role::kToken;
    else if (n) a.role[i] = Role::kRows, a.multiple = *n;
    else if (parts) a.role[i] = Role::kToken, a.multiple = *parts;
    else if (symbolic_batch && d == io.batch) a.role[i] = Role::kBatch;
    else if (!d.is_constant()) {
      if (d == Dim::symbol(kPast) || d == Dim::symbol(kPast) + tokens) return unsupported("has an axis of keys: " + to_string(t));
      return unsupported("has an axis of size " + d.to_string() + ": " + to_string(t));
    }
  }
  // A leading axis of one in front of the tokens is a batch that is broadcast, or fixed.
  bool named = std::find(a.role.begin(), a.role.end(), Role::kBatch) != a.role.end();
  if (a.token > 0 && !named && t.shape[0].constant_or(0) == 1) a.role[0] = Role::kBatch;
  for (size_t i = 0; i < t.shape.size(); ++i)
    if (a.role[i] == Role::kOther) a.others.push_back(*t.shape[i].constant());
  return a;
}

bool keeps_tokens(const Type& from, const Axes& a, const Type& to, const Axes& b, const DecoderIo& io) {
  if (a.token < 0 || b.token < 0) return false;
  auto [before_a, behind_a] = round_token(from, a, io);
  auto [before_b, behind_b] = round_token(to, b, io);
  if (!(before_a == before_b) || !(behind_a == behind_b)) return false;
  // Rows that hold parts of a token put those parts first; nothing else may stand in front of the token axis then.
  bool parts = a.multiple > 1 || b.multiple > 1;
  return !parts || before_a == io.batch || before_a == Dim(1);
}

}  // namespace brisk::convert
