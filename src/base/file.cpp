#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/mapping_guard.h"

namespace brisk {
namespace {

Error os_error(const std::string& path, const char* doing) {
  return environment(path + ": cannot " + doing + ": " + std::strerror(errno));
}

// Names of temporary files that a signal handler may have to remove; fixed slots, so that it needs no lock.
constexpr int kMaxTemporary = 16;
std::atomic<char*> g_temporary[kMaxTemporary];

void register_temporary(const std::string& name) {
  char* copy = ::strdup(name.c_str());
  for (auto& slot : g_temporary) {
    char* empty = nullptr;
    if (slot.compare_exchange_strong(empty, copy)) return;
  }
  ::free(copy);
}

void forget_temporary(const std::string& name) {
  for (auto& slot : g_temporary) {
    char* s = slot.load();
    if (s && name == s && slot.compare_exchange_strong(s, nullptr)) return ::free(s);
  }
}

}  // namespace

void remove_temporary_files() noexcept {
  for (auto& slot : g_temporary)
    if (char* s = slot.load()) ::unlink(s);
}

Result<std::shared_ptr<MappedFile>> MappedFile::open(const std::string& path) {
  std::shared_ptr<MappedFile> file(new MappedFile);
  file->path_ = path;
  file->fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file->fd_ < 0) {
    if (errno == ENOENT) return invalid(path + ": no such file");
    return os_error(path, "open");
  }
  struct stat st{};
  if (::fstat(file->fd_, &st) != 0) return os_error(path, "read the size of");
  if (!S_ISREG(st.st_mode)) return invalid(path + ": not a regular file");
  file->size_ = static_cast<size_t>(st.st_size);
  if (file->size_ == 0) return file;
  void* p = ::mmap(nullptr, file->size_, PROT_READ, MAP_SHARED, file->fd_, 0);
  if (p == MAP_FAILED) return os_error(path, "map");
  file->data_ = static_cast<const std::byte*>(p);
  file->guard_ = mapping_guard::add(p, file->size_);
  return file;
}

MappedFile::~MappedFile() {
  mapping_guard::remove(guard_);
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
  if (fd_ >= 0) ::close(fd_);
}

Status MappedFile::check_size() const {
  struct stat st{};
  if (::fstat(fd_, &st) != 0) return os_error(path_, "read the size of");
  if (static_cast<size_t>(st.st_size) < size_)
    return invalid(path_ + ": file shrank from " + std::to_string(size_) + " to " + std::to_string(st.st_size) +
                   " bytes while open");
  if (lost()) return environment(path_ + ": a part of the file could not be read");
  return {};
}

bool MappedFile::lost() const { return mapping_guard::lost(guard_); }

MappingWatch::MappingWatch() : before_(mapping_guard::losses()) {}

Status MappingWatch::check() const {
  if (mapping_guard::losses() == before_) return {};
  return environment("a file that was being read was cut short, or a part of it could not be read");
}

Result<std::unique_ptr<AtomicFile>> AtomicFile::create(const std::string& path) {
  if (is_directory(path)) return invalid(path + ": is a folder; name a file");
  std::unique_ptr<AtomicFile> file(new AtomicFile);
  file->path_ = path;
  file->temporary_ = path + ".tmp-" + std::to_string(::getpid());
  file->fd_ = ::open(file->temporary_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file->fd_ < 0) {
    auto error = os_error(path, "write");
    file->temporary_.clear();
    return error;
  }
  register_temporary(file->temporary_);
  return file;
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) {
    ::unlink(temporary_.c_str());
    forget_temporary(temporary_);
  }
}

Status AtomicFile::write(std::span<const std::byte> data) {
  while (!data.empty()) {
    ssize_t n = ::write(fd_, data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EFAULT) return environment(path_ + ": cannot write: a file that was being read was cut short");
    if (n <= 0) return os_error(path_, "write");
    position_ += static_cast<uint64_t>(n);
    data = data.subspan(static_cast<size_t>(n));
  }
  return {};
}

Status AtomicFile::pad_to(uint64_t alignment) {
  static const std::byte zeros[4096] = {};
  uint64_t missing = (alignment - position_ % alignment) % alignment;
  while (missing > 0) {
    uint64_t n = missing < sizeof zeros ? missing : sizeof zeros;
    BRISK_TRY(write({zeros, static_cast<size_t>(n)}));
    missing -= n;
  }
  return {};
}

Status AtomicFile::overwrite(uint64_t offset, std::span<const std::byte> data) {
  while (!data.empty()) {
    ssize_t n = ::pwrite(fd_, data.data(), data.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return os_error(path_, "write");
    offset += static_cast<uint64_t>(n);
    data = data.subspan(static_cast<size_t>(n));
  }
  return {};
}

Status AtomicFile::commit() {
  if (::fsync(fd_) != 0) return os_error(path_, "flush");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return os_error(path_, "rename into place");
  forget_temporary(temporary_);
  temporary_.clear();
  return {};
}

Result<std::string> read_file(const std::string& path, uint64_t limit) {
  BRISK_ASSIGN(auto file, MappedFile::open(path));
  auto bytes = file->bytes();
  if (bytes.size() > limit)
    return invalid(path + ": " + std::to_string(bytes.size()) + " bytes, at most " + std::to_string(limit) +
                   " are read of this kind of file");
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  BRISK_TRY(file->check_size());
  return text;
}

bool is_directory(const std::string& path) {
  struct stat st{};
  return ::stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
}

bool is_file(const std::string& path) {
  struct stat st{};
  return ::stat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode);
}

}  // namespace brisk
