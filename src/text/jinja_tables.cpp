// Binding of arguments, shared by everything in the tables.
#include "text/jinja_tables.h"

namespace brisk::jinja {

Bound::Bound(Args& args, std::string_view function, std::string_view names, size_t required) {
  std::vector<std::string_view> params;
  while (!names.empty()) {
    size_t n = std::min(names.find(' '), names.size());
    params.push_back(names.substr(0, n));
    names.remove_prefix(std::min(names.size(), n + 1));
  }
  values_.resize(params.size());
  std::string where = std::string(function) + "()";
  if (args.pos.size() > params.size())
    type_error(where + " takes at most " + std::to_string(params.size()) + " arguments (" +
               std::to_string(args.pos.size()) + " given)");
  for (size_t k = 0; k < args.pos.size(); ++k) values_[k] = args.pos[k];
  for (auto& [name, v] : args.kw) {
    size_t k = 0;
    while (k < params.size() && params[k] != name) ++k;
    if (k == params.size()) type_error(where + " got an unexpected keyword argument '" + name + "'");
    if (values_[k]) type_error(where + " got multiple values for argument '" + name + "'");
    values_[k] = v;
  }
  for (size_t k = 0; k < required; ++k)
    if (!values_[k]) type_error(where + " missing required argument: '" + std::string(params[k]) + "'");
}

Int Bound::integer(size_t k, Int otherwise) const {
  if (!has(k)) return otherwise;
  const Val& v = *values_[k];
  need_defined(v);
  if (!v.is_integral()) type_error("'" + type_name(v) + "' object cannot be interpreted as an integer");
  return v.as_int();
}

}  // namespace brisk::jinja
