// Files: read-only mappings that cannot raise SIGBUS by a wrong claim of size, and atomic writes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "brisk/result.h"

namespace brisk {

// A whole file mapped read-only and shared between processes. Immutable, movable; the mapping ends with the object.
// Spans handed out by bytes() must not outlive it (hold it in a shared_ptr where they would).
class MappedFile {
 public:
  static Result<std::shared_ptr<MappedFile>> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }
  // Are all bytes still those of the file? An error if it shrank since it was opened, or if a page could not be read (it
  // reads as zeros then, mapping_guard.h). Ask after the bytes were used.
  Status check_size() const;
  bool lost() const;  // the second of these: one load

 private:
  MappedFile() = default;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  int fd_ = -1;
  int guard_ = -1;
  std::string path_;
};

// For work on mappings that somebody else holds (the weights of a model): take one before, and check() after it.
class MappingWatch {
 public:
  MappingWatch();
  Status check() const;  // an error if any mapping of this process has lost pages since

 private:
  uint64_t before_;
};

// Writes to "<path>.tmp-<pid>" and renames on commit(); the destructor removes what was not committed, so an
// interrupted or failed build (full disk included) leaves the old file as it was. Not thread safe.
class AtomicFile {
 public:
  static Result<std::unique_ptr<AtomicFile>> create(const std::string& path);
  ~AtomicFile();
  Status write(std::span<const std::byte> data);
  Status pad_to(uint64_t alignment);  // writes zero bytes
  Status overwrite(uint64_t offset, std::span<const std::byte> data);
  uint64_t position() const { return position_; }
  Status commit();  // fsync + rename

 private:
  AtomicFile() = default;
  int fd_ = -1;
  uint64_t position_ = 0;
  std::string path_, temporary_;
};

// The whole of a small file; an error above `limit` bytes.
Result<std::string> read_file(const std::string& path, uint64_t limit = 256u << 20);

bool is_directory(const std::string& path);
bool is_file(const std::string& path);

// Removes the temporary files of every open AtomicFile; async-signal-safe, for SIGINT handlers.
void remove_temporary_files() noexcept;

}  // namespace brisk
