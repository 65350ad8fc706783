#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/checked.h"
#include "base/file.h"
#include "engine/check.h"
#include "engine/decode.h"
#include "engine/engine_file.h"
#include "engine/layout.h"

namespace brisk {
namespace {

using layout::Section;

const char* section_name(Section kind) {
  switch (kind) {
    case Section::kMetadata: return "metadata";
    case Section::kTokenizer: return "tokenizer";
    case Section::kChatTemplate: return "chat template";
    case Section::kGenerationConfig: return "generation config";
    case Section::kWeights: return "weights";
  }
  return "?";
}

// Header and section table, checked: what find() gives lies inside the file and does not overlap the table.
class Sections {
 public:
  explicit Sections(std::span<const std::byte> file) : file_(file) {}

  Status read() {
    layout::Header header;
    if (file_.size() < sizeof header || std::memcmp(file_.data(), layout::kMagic, sizeof header.magic) != 0)
      return invalid("not an engine file; brisk build makes one from a model");
    std::memcpy(&header, file_.data(), sizeof header);
    if (header.version != layout::kFormatVersion)
      return invalid("engine format " + std::to_string(header.version) + ", this brisk reads format " +
                     std::to_string(layout::kFormatVersion) +
                     (header.version > layout::kFormatVersion ? "; a newer brisk made it: update this one, or build the engine again"
                                                              : "; build the engine again with this brisk"));
    if (header.file_size != file_.size())
      return invalid("truncated or overlong: " + std::to_string(file_.size()) + " bytes, the header says " + std::to_string(header.file_size));
    if (header.sections == 0 || header.sections > layout::kMaxSections)
      return invalid(std::to_string(header.sections) + " sections, allowed 1 to " + std::to_string(layout::kMaxSections));
    uint64_t table = header.sections * sizeof(layout::SectionEntry), begin = sizeof header + table;
    if (begin > file_.size()) return invalid("the section table ends beyond the file");
    std::string head(reinterpret_cast<const char*>(file_.data()), begin);
    layout::Header blank = header;
    blank.checksum = 0;
    std::memcpy(head.data(), &blank, sizeof blank);
    if (XXH3_64bits(head.data(), head.size()) != header.checksum) return invalid("the header is damaged (checksum)");
    for (uint32_t i = 0; i < header.sections; ++i) {
      layout::SectionEntry e;
      std::memcpy(&e, file_.data() + sizeof header + i * sizeof e, sizeof e);
      BRISK_TRY(add(e, begin));
    }
    return {};
  }

  // Empty if the file has no such section.
  std::span<const std::byte> find(Section kind) const {
    const layout::SectionEntry& e = entries_[static_cast<size_t>(kind)];
    return file_.subspan(e.offset, e.size);
  }
  std::string text(Section kind) const {
    auto s = find(kind);
    return {reinterpret_cast<const char*>(s.data()), s.size()};
  }

  Status verify(Section kind) const {
    auto s = find(kind);
    if (!s.empty() && XXH3_64bits(s.data(), s.size()) != entries_[static_cast<size_t>(kind)].checksum)
      return invalid(std::string("section ") + section_name(kind) + " is damaged (checksum)");
    return {};
  }

 private:
  Status add(const layout::SectionEntry& e, uint64_t begin) {
    auto kind = static_cast<uint32_t>(e.kind);
    if (kind == 0 || kind > layout::kSectionKinds) return invalid("a section of unknown kind " + std::to_string(kind));
    std::string name = std::string("section ") + section_name(e.kind);
    if (entries_[kind].kind == e.kind) return invalid(name + " occurs twice");
    uint64_t alignment = e.kind == Section::kWeights ? layout::kPage : layout::kAlignment;
    if (e.offset < begin || !inside(e.offset, e.size, file_.size()) || e.offset % alignment != 0)
      return invalid(name + ": " + std::to_string(e.size) + " bytes at offset " + std::to_string(e.offset) + " are not aligned to " +
                     std::to_string(alignment) + " inside the file of " + std::to_string(file_.size()) + " bytes");
    if (e.kind == Section::kMetadata && e.size > layout::kMaxMetadata)
      return invalid(name + ": " + std::to_string(e.size) + " bytes, at most " + std::to_string(layout::kMaxMetadata));
    entries_[kind] = e;
    return {};
  }

  std::span<const std::byte> file_;
  layout::SectionEntry entries_[layout::kSectionKinds + 1] = {};
};

Status read_content(const MappedFile& file, const Registry* registry, bool verify_weights, EngineContent& out) {
  Sections sections(file.bytes());
  BRISK_TRY(sections.read());
  BRISK_TRY(file.check_size());  // from here on pages are touched
  for (auto kind : {Section::kMetadata, Section::kTokenizer, Section::kChatTemplate, Section::kGenerationConfig})
    BRISK_TRY(sections.verify(kind));
  if (verify_weights) BRISK_TRY(sections.verify(Section::kWeights));
  BRISK_TRY(decode_metadata(sections.find(Section::kMetadata), sections.find(Section::kWeights), out));
  out.tokenizer = sections.text(Section::kTokenizer);
  out.chat_template = sections.text(Section::kChatTemplate);
  out.generation_config = sections.text(Section::kGenerationConfig);
  return check_content(out, registry);
}

Result<std::shared_ptr<const EngineContent>> read(const std::string& path, const Registry* registry, bool verify_weights) {
  BRISK_ASSIGN(std::shared_ptr<MappedFile> file, MappedFile::open(path));
  auto content = std::make_shared<EngineContent>();
  if (auto s = read_content(*file, registry, verify_weights, *content); !s.ok()) return std::move(s).error().in(path);
  BRISK_TRY(file->check_size());
  for (Weight& w : content->weights) w.bytes.owner = file;
  content->mapping = file;
  return std::shared_ptr<const EngineContent>(std::move(content));
}

}  // namespace

Result<std::shared_ptr<const EngineContent>> read_engine(const std::string& path, const Registry& registry,
                                                         const ReadOptions& options) {
  return read(path, &registry, options.verify_checksums);
}

Result<std::shared_ptr<const EngineContent>> read_engine_metadata(const std::string& path) { return read(path, nullptr, false); }

}  // namespace brisk
