#include "compiler/load_model.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "base/sha256.h"
#include "engine/layout.h"
#include "import/gguf/import.h"
#include "import/hf/beside.h"
#include "import/hf/import.h"
#include "import/onnx/import.h"

namespace brisk {
namespace {

Error not_there(const std::string& path) {
  std::string text = path + ": not a folder or file";
  if (std::count(path.begin(), path.end(), '/') == 1 && path.front() != '.' && path.front() != '/')
    text += "; if this is a hub id, fetch it first: hf download " + path + " --local-dir DIR, then give DIR";
  return invalid(text);
}

bool begins_with_magic(const MappedFile& file, std::string_view magic) {
  auto b = file.bytes();
  return b.size() >= magic.size() && std::memcmp(b.data(), magic.data(), magic.size()) == 0;
}

}  // namespace

Result<Model> load_model(const std::string& path, const std::string& tokenizer_dir) {
  if (is_directory(path)) return import_hf(path, {tokenizer_dir});
  if (!is_file(path)) return not_there(path);
  BRISK_ASSIGN(auto file, MappedFile::open(path));
  if (begins_with_magic(*file, "GGUF")) return import_gguf(path);
  if (begins_with_magic(*file, "PK\x03\x04") || begins_with_magic(*file, "\x80\x02"))
    return invalid(path + ": a PyTorch pickle; brisk never opens pickles: save the model as safetensors, GGUF or ONNX");
  if (begins_with_magic(*file, std::string_view(layout::kMagic, sizeof layout::kMagic))) return invalid(path + ": is an engine already; build takes the model it was made from");
  file.reset();
  BRISK_ASSIGN(Model model, import_onnx(path));
  auto beside = std::filesystem::path(path).parent_path().string();
  BRISK_TRY(read_text_files(model, !tokenizer_dir.empty() ? tokenizer_dir : beside.empty() ? "." : beside, !tokenizer_dir.empty()));
  return model;
}

Result<std::string> hash_model(const std::string& path) {
  Sha256 hash;
  std::vector<std::string> files;
  if (is_directory(path)) {
    std::error_code ignored;
    for (auto& entry : std::filesystem::directory_iterator(path, ignored)) {
      auto extension = entry.path().extension();
      if (entry.is_regular_file() && (extension == ".json" || extension == ".safetensors" || extension == ".jinja"))
        files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
  } else {
    files.push_back(path);
  }
  for (auto& f : files) {
    BRISK_ASSIGN(auto file, MappedFile::open(f));
    if (files.size() > 1) hash.add(std::filesystem::path(f).filename().string());
    hash.add(file->bytes());
    BRISK_TRY(file->check_size());
  }
  return hex(hash.finish());
}

}  // namespace brisk
