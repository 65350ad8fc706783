#include "text/tokenizer_json.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "text/pretokenize.h"
#include "text/tokenizer_gguf.h"
#include "text/tokenizer_json_node.h"
#include "text/tokenizer_vocab.h"

namespace brisk {
namespace {

using hf::Node;
using hf::Problems;
namespace dom = simdjson::dom;

constexpr size_t kMaxFile = size_t{1} << 30;
constexpr size_t kMaxDepth = 64;

// Integers of more than 18 digits, which simdjson refuses, as powers of ten of the same length: "1000..." -> "1E00030".
// transformers writes such a model_max_length into most folders.
void shorten_integers(std::string& text) {
  auto digit = [&](size_t i) { return i < text.size() && text[i] >= '0' && text[i] <= '9'; };
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') quoted = !quoted;
    if (text[i] == '\\' && quoted) ++i;
    if (quoted || !digit(i)) continue;
    size_t begin = i;
    while (digit(i)) ++i;
    bool integer = i >= text.size() || (text[i] != '.' && text[i] != 'e' && text[i] != 'E');
    bool starts = begin == 0 || std::string_view(".+eE").find(text[begin - 1]) == std::string_view::npos;
    if (integer && starts && i - begin > 18) {
      std::string power = std::to_string(i - begin - 1);
      std::fill(text.begin() + ptrdiff_t(begin) + 1, text.begin() + ptrdiff_t(i), '0');
      text[begin + 1] = 'E';
      text.replace(i - power.size(), power.size(), power);
    }
    --i;
  }
}

Result<dom::element> parse(dom::parser& parser, std::string_view text, const std::string& file) {
  if (text.size() > kMaxFile) return invalid(file + ": " + std::to_string(text.size()) + " bytes, at most 1 GiB are allowed");
  if (text.empty()) return invalid(file + ": missing or empty");
  if (parser.allocate(text.size(), kMaxDepth)) return environment(file + ": out of memory");
  dom::element root;
  auto error = parser.parse(text.data(), text.size()).get(root);
  if (error == simdjson::NUMBER_ERROR) {
    std::string copy(text);
    shorten_integers(copy);
    error = parser.parse(copy).get(root);
  }
  if (error) return invalid(file + ": not JSON: " + simdjson::error_message(error));
  return root;
}

// The vocabulary as the file spells it, while the model is read.
class ModelReader {
 public:
  ModelReader(const Node& root, TokenizerModel& model) : root_(root), node_(root["model"]), model_(model) {}

  void read() {
    if (!node_.is_object()) return node_.fail("an object is expected");
    std::string type = kind();
    if (type == "BPE") {
      model_.kind = TokenizerKind::kBpe;
      read_vocabulary_map();
    } else if (type == "WordPiece") {
      model_.kind = TokenizerKind::kWordPiece;
      model_.subword_prefix = node_["continuing_subword_prefix"].text("##");
      model_.max_word_chars = uint32_t(node_["max_input_chars_per_word"].integer(100, 0, UINT32_MAX));
      read_vocabulary_map();
    } else if (type == "Unigram") {
      model_.kind = TokenizerKind::kUnigram;
      model_.fuse_unknown = model_.whole_vocabulary = true;
      read_vocabulary_list();
    } else {
      return node_.miss("model '" + type + "'");
    }
    model_.byte_fallback = node_["byte_fallback"].flag(false);
    if (!read_added()) return;
    spell();
    read_unknown(type);
    if (type == "BPE") read_bpe();
  }

 private:
  std::string kind() const {
    Node type = node_["type"];
    if (type.present()) return type.text();
    if (node_["merges"].present()) return "BPE";
    return node_["vocab"].is_array() ? "Unigram" : "WordPiece";
  }

  // Ids may have holes but not run away from the number of tokens there are.
  bool room_for(const Node& node, int64_t id, size_t tokens) {
    int64_t limit = int64_t(tokens) * 2 + 65536;
    if (id < 0 || id >= limit) {
      node.fail("token id " + std::to_string(id) + " is not in [0, " + std::to_string(limit) + ")");
      return false;
    }
    if (size_t(id) >= model_.tokens.size()) model_.tokens.resize(size_t(id) + 1);
    return true;
  }

  void read_vocabulary_map() {
    Node vocab = node_["vocab"];
    dom::object object;
    if (!vocab.present() || vocab.value().get(object)) return vocab.fail("an object is expected");
    size_t count = 0;
    for (auto it = object.begin(); it != object.end(); ++it) ++count;
    model_.tokens.reserve(count);
    for (auto field : object) {
      int64_t id;
      if (field.value.get(id)) return vocab.fail("the id of '" + std::string(field.key) + "' is not an integer");
      if (!room_for(vocab, id, count)) return;
      model_.tokens[size_t(id)] = field.key;
    }
  }

  void read_vocabulary_list() {
    Node vocab = node_["vocab"];
    dom::array list;
    if (!vocab.present() || vocab.value().get(list)) return vocab.fail("an array is expected");
    for (dom::element item : list) {
      dom::array pair;
      std::string_view token;
      double score;
      if (item.get(pair) || pair.size() != 2 || pair.at(0).get(token) || pair.at(1).get(score)) {
        return vocab.fail("item " + std::to_string(model_.tokens.size()) + " is not [token, score]");
      }
      model_.tokens.emplace_back(token);
      model_.scores.push_back(score);
    }
  }

  // False if an id is out of range: what follows takes them as places in the vocabulary.
  bool read_added() {
    size_t own = model_.tokens.size(), index = 0;
    std::unordered_map<std::string_view, int32_t> known;
    known.reserve(own);
    for (size_t i = 0; i < own; ++i) known[model_.tokens[i]] = int32_t(i);  // of two alike the last counts
    std::vector<std::pair<int32_t, std::string>> more;
    root_["added_tokens"].each([&](const Node& node) {
      if (++index > 1'000'000) return node.fail("more than 1000000 added tokens");
      AddedToken t;
      t.content = node["content"].text();
      if (t.content.empty()) return;
      auto it = known.find(t.content);
      t.id = it != known.end() ? it->second : int32_t(node["id"].integer(-1, 0, INT32_MAX));
      if (t.id < 0) return node["id"].fail("missing");
      t.lstrip = node["lstrip"].flag(false), t.rstrip = node["rstrip"].flag(false);
      t.single_word = node["single_word"].flag(false), t.special = node["special"].flag(false);
      t.normalized = node["normalized"].flag(!t.special);
      t.in_model = it != known.end();
      if (!t.in_model) more.emplace_back(t.id, t.content);
      model_.added.push_back(std::move(t));
    });
    for (auto& [id, content] : more) {
      if (!room_for(root_["added_tokens"], id, own + model_.added.size())) return false;
      model_.tokens[size_t(id)] = std::move(content);
    }
    if (model_.kind == TokenizerKind::kUnigram) model_.scores.resize(model_.tokens.size(), 0.0);
    return true;
  }

  // Types, and bytes for what is spelled in GPT-2's characters. `spelled_` keeps the file's spelling for the lookups.
  void spell() {
    size_t n = model_.tokens.size();
    model_.types.assign(n, TokenType::kNormal);
    std::unordered_set<std::string_view> special;
    for (const AddedToken& t : model_.added) {
      model_.types[size_t(t.id)] = t.special ? TokenType::kControl : TokenType::kUserDefined;
      if (t.special) special.insert(t.content);
    }
    for (size_t i = 0; i < n; ++i) {
      spelled_.add(model_.tokens[i]);
      if (special.contains(model_.tokens[i])) model_.types[i] = TokenType::kControl;
      bool normal = model_.types[i] == TokenType::kNormal;
      if (model_.byte_level && !chars_to_bytes(spelled_[i], model_.tokens[i]) && normal) {
        model_.types[i] = TokenType::kUnused;
      }
      if (normal && model_.byte_fallback && model_.tokens[i].size() == 6 && model_.tokens[i].starts_with("<0x")) {
        model_.types[i] = TokenType::kByte;
      }
    }
    index_.reset(spelled_, n);
    for (size_t i = 0; i < n; ++i) index_.insert(uint32_t(i));
  }

  void read_unknown(const std::string& type) {
    if (type == "Unigram") {
      model_.unknown = int32_t(node_["unk_id"].integer(-1, 0, std::max<int64_t>(0, int64_t(model_.tokens.size()) - 1)));
      return;
    }
    Node unk = node_["unk_token"];
    if (!unk.present()) return;
    std::string token = unk.text();
    if (token.empty()) return;
    model_.unknown = index_.find(token);
    if (model_.unknown < 0 && type == "WordPiece") unk.fail("'" + token + "' is not in the vocabulary");
  }

  void read_bpe() {
    model_.subword_prefix = node_["continuing_subword_prefix"].text();
    model_.word_suffix = node_["end_of_word_suffix"].text();
    model_.fuse_unknown = node_["fuse_unk"].flag(false);
    model_.ignore_merges = node_["ignore_merges"].flag(false);
    Node dropout = node_["dropout"];
    double chance = 0;
    if (dropout.present() && (dropout.value().get(chance) || chance != 0)) dropout.miss("random merges (dropout)");
    read_merges();
  }

  void read_merges() {
    Node merges = node_["merges"];
    dom::array list;
    if (!merges.present() || merges.value().get(list)) return merges.fail("an array is expected");
    std::string joined;
    size_t rank = 0;
    for (dom::element item : list) {
      std::string_view left, right, both;
      dom::array pair;
      bool good = true;
      if (!item.get(both)) {
        size_t space = both.find(' ', 1);
        good = space != std::string_view::npos && both.find(' ', space + 1) == std::string_view::npos;
        if (good) left = both.substr(0, space), right = both.substr(space + 1);
      } else {
        good = !item.get(pair) && pair.size() == 2 && !pair.at(0).get(left) && !pair.at(1).get(right);
      }
      if (!good) return merges.fail("item " + std::to_string(rank) + " is neither \"left right\" nor [left, right]");
      if (right.size() < model_.subword_prefix.size()) {
        return merges.fail("item " + std::to_string(rank) + " is shorter than continuing_subword_prefix");
      }
      joined.assign(left).append(right.substr(model_.subword_prefix.size()));
      int32_t a = index_.find(left), b = index_.find(right), c = index_.find(joined);
      if (a < 0 || b < 0 || c < 0) {
        return merges.fail("item " + std::to_string(rank) + ": '" +
                           std::string(a < 0 ? left : b < 0 ? right : std::string_view(joined)) +
                           "' is not in the vocabulary");
      }
      model_.merges.push_back({uint32_t(a), uint32_t(b), uint32_t(c)});
      ++rank;
    }
    keep_last_of_equal_merges();
  }

  // Where a pair is listed twice the later rank is the one that counts.
  void keep_last_of_equal_merges() {
    MergeIndex seen;
    seen.reset(model_.merges.size());
    bool twice = false;
    for (size_t i = model_.merges.size(); i-- > 0;) {
      Merge& m = model_.merges[i];
      if (seen.find(m.left, m.right).rank == MergeIndex::kNone) {
        seen.insert(m.left, m.right, uint32_t(i), m.result);
      } else {
        m.result = MergeIndex::kNone;
        twice = true;
      }
    }
    if (twice) std::erase_if(model_.merges, [](const Merge& m) { return m.result == MergeIndex::kNone; });
  }

  const Node& root_;
  Node node_;
  TokenizerModel& model_;
  StringPool spelled_;
  TokenIndex index_;
};

// tokenizer_config.json and generation_config.json.
class ConfigReader {
 public:
  explicit ConfigReader(TokenizerModel& model) : model_(model) {}

  void read_tokenizer_config(const Node& root) {
    model_.bos = named(root["bos_token"]), model_.eos = named(root["eos_token"]), model_.pad = named(root["pad_token"]);
    if (model_.unknown < 0 && model_.kind == TokenizerKind::kUnigram) model_.unknown = named(root["unk_token"]);
    apply_flag(root["add_bos_token"], model_.bos, model_.prefix_ids);
    apply_flag(root["add_eos_token"], model_.eos, model_.suffix_ids);
    Node chat = root["chat_template"];
    if (chat.is_text()) {
      model_.chat_template = chat.text();
    } else {
      chat.each([&](const Node& one) {
        std::string name = one["name"].text();
        if (name == "default" || model_.chat_template.empty()) model_.chat_template = one["template"].text();
      });
    }
  }

  void read_generation_config(const Node& root) {
    Node eos = root["eos_token_id"];
    auto add = [&](const Node& node) {
      if (!node.present()) return;
      int64_t id = node.integer(-1, INT32_MIN, INT32_MAX);
      if (id >= 0 && size_t(id) < model_.tokens.size()) add_end(int32_t(id));
    };
    if (eos.is_array()) {
      eos.each(add);
    } else {
      add(eos);
    }
  }

  // What the files leave open.
  void finish() {
    auto type = [&](int32_t id) { return model_.types[size_t(id)]; };
    for (size_t i = 0; i < model_.tokens.size(); ++i) {
      if (type(int32_t(i)) == TokenType::kControl && ends_generation_by_name(model_.tokens[i])) add_end(int32_t(i));
    }
    if (model_.eos >= 0) add_end(model_.eos);
    if (model_.eos < 0 && !model_.end_ids.empty()) model_.eos = model_.end_ids[0];
    if (model_.bos < 0 && !model_.prefix_ids.empty() && size_t(model_.prefix_ids[0]) < model_.tokens.size()) {
      model_.bos = model_.prefix_ids[0];
    }
    if (model_.eos >= 0) std::iter_swap(model_.end_ids.begin(),
                                        std::find(model_.end_ids.begin(), model_.end_ids.end(), model_.eos));
  }

 private:
  void add_end(int32_t id) {
    auto& ends = model_.end_ids;
    if (std::find(ends.begin(), ends.end(), id) == ends.end()) ends.push_back(id);
  }

  // A token by name, or {"content": name}; -1 if there is none.
  int32_t named(const Node& node) {
    if (!node.present()) return -1;
    std::string name = node.is_object() ? node["content"].text() : node.text();
    for (const AddedToken& t : model_.added) {
      if (t.content == name) return t.id;
    }
    auto it = std::find(model_.tokens.begin(), model_.tokens.end(), name);
    return it == model_.tokens.end() || name.empty() ? -1 : int32_t(it - model_.tokens.begin());
  }

  void apply_flag(const Node& flag, int32_t id, std::vector<int32_t>& ids) {
    if (!flag.present() || id < 0) return;
    bool has = std::find(ids.begin(), ids.end(), id) != ids.end();
    bool wanted = flag.flag(has);
    if (wanted && !has) ids.push_back(id);
    if (!wanted && has) std::erase(ids, id);
  }

  TokenizerModel& model_;
};

Status read_extra(std::string_view text, const char* file, auto read) {
  if (text.empty()) return {};
  dom::parser parser;
  BRISK_ASSIGN(dom::element root, parse(parser, text, file));
  Problems problems{file, {}, {}};
  read(Node(problems, root, ""));
  if (!problems.error.empty()) return invalid(problems.error);
  return {};
}

Result<TokenizerModel> read_main(std::string_view text) {
  const std::string file = "tokenizer.json";
  dom::parser parser;
  BRISK_ASSIGN(dom::element element, parse(parser, text, file));
  Problems problems{file, {}, {}};
  Node root(problems, element, "");
  TokenizerModel model;
  hf::read_normalizer(root["normalizer"], model);
  hf::read_pretokenizer(root["pre_tokenizer"], model);
  hf::read_decoder(root["decoder"], model);
  hf::read_postprocessor(root["post_processor"], model);
  ModelReader(root, model).read();
  if (!problems.error.empty()) return invalid(problems.error);
  if (!problems.unsupported.empty()) {
    std::string list = file + ": " + std::to_string(problems.unsupported.size()) + " unsupported:";
    for (const std::string& item : problems.unsupported) list += "\n  " + item;
    return unsupported(list);
  }
  return model;
}

}  // namespace

Result<TokenizerModel> tokenizer_from_json(const HfTokenizerFiles& files) {
  BRISK_ASSIGN(TokenizerModel model, read_main(files.tokenizer_json));
  ConfigReader config(model);
  BRISK_TRY(read_extra(files.tokenizer_config, "tokenizer_config.json",
                       [&](const Node& root) { config.read_tokenizer_config(root); }));
  BRISK_TRY(read_extra(files.generation_config, "generation_config.json",
                       [&](const Node& root) { config.read_generation_config(root); }));
  config.finish();
  if (!files.chat_template.empty()) model.chat_template = files.chat_template;
  return model;
}

}  // namespace brisk
