#include "tensor/zip.h"

#include <zlib.h>

#include <cstdint>

#include "base/checked.h"

namespace brisk {
namespace {

constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50, kLocator64 = 0x07064b50;
constexpr uint64_t kMaxRatio = 1040;  // deflate gives at most 1032:1

struct Reader {
  std::string_view b;
  bool has(uint64_t at, uint64_t n) const { return inside(at, n, b.size()); }
  uint64_t get(uint64_t at, int n) const {  // caller has checked
    uint64_t v = 0;
    for (int i = 0; i < n; ++i) v |= static_cast<uint64_t>(static_cast<uint8_t>(b[at + static_cast<uint64_t>(i)])) << (8 * i);
    return v;
  }
};

struct Entry {
  uint64_t method, packed, size, local;
  uint32_t crc;
};

Result<std::string> inflate_entry(std::string_view packed, uint64_t size) {
  if (size > packed.size() * kMaxRatio + 64) return invalid("zip: an entry claims " + std::to_string(size) + " bytes, more than its data can hold");
  std::string out(size, '\0');
  z_stream z{};
  if (inflateInit2(&z, -MAX_WBITS) != Z_OK) return environment("zip: zlib does not start");
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  uint64_t left_in = packed.size(), left_out = size;
  int state = Z_OK;
  while (state == Z_OK) {
    auto in = static_cast<uInt>(std::min<uint64_t>(left_in, 1u << 30)), room = static_cast<uInt>(std::min<uint64_t>(left_out, 1u << 30));
    z.avail_in = in;
    z.avail_out = room;
    state = inflate(&z, Z_NO_FLUSH);
    left_in -= in - z.avail_in;
    left_out -= room - z.avail_out;
    if (z.avail_in == in && z.avail_out == room) break;  // no progress
  }
  inflateEnd(&z);
  if (state != Z_STREAM_END || left_out != 0) return invalid("zip: an entry does not inflate to the size that it claims");
  return out;
}

// Zip64 sizes in the extra field replace those that are all ones.
void zip64_sizes(const Reader& r, uint64_t at, uint64_t length, Entry& e) {
  uint64_t end = at + length;
  while (at + 4 <= end) {
    uint64_t tag = r.get(at, 2), n = r.get(at + 2, 2), p = at + 4;
    if (n > end - p) return;
    if (tag == 1) {
      uint64_t stop = p + n;
      for (uint64_t* field : {&e.size, &e.packed, &e.local})
        if (*field == 0xffffffff && p + 8 <= stop) *field = r.get(p, 8), p += 8;
      return;
    }
    at = p + n;
  }
}

Result<std::string> extract(const Reader& r, const Entry& e) {
  if (!r.has(e.local, 30) || r.get(e.local, 4) != kLocal) return invalid("zip: a local header is not where the directory says");
  uint64_t data = e.local + 30 + r.get(e.local + 26, 2) + r.get(e.local + 28, 2);
  if (!r.has(data, e.packed)) return invalid("zip: an entry ends outside the file");
  std::string_view packed = r.b.substr(data, e.packed);
  std::string out;
  if (e.method == 0) {
    if (e.size != e.packed) return invalid("zip: a stored entry has two sizes");
    out = packed;
  } else if (e.method == 8) {
    BRISK_ASSIGN(out, inflate_entry(packed, e.size));
  } else {
    return unsupported("zip: compression method " + std::to_string(e.method) + "; stored and deflate are read");
  }
  if (crc32_z(0, reinterpret_cast<const Bytef*>(out.data()), out.size()) != e.crc) return invalid("zip: an entry's checksum is wrong");
  return out;
}

}  // namespace

Result<std::map<std::string, std::string>> unzip(std::string_view archive) {
  Reader r{archive};
  if (archive.size() < 22) return invalid("zip: the file is too short");
  uint64_t end = archive.size() - 22, lowest = end > 65535 ? end - 65535 : 0;
  while (r.get(end, 4) != kEnd) {
    if (end == lowest) return invalid("zip: no end-of-directory record (the file is cut off, or no zip)");
    --end;
  }
  uint64_t count = r.get(end + 10, 2), at = r.get(end + 16, 4);
  if (end >= 20 && r.get(end - 20, 4) == kLocator64) {
    uint64_t end64 = r.get(end - 20 + 8, 8);
    if (!r.has(end64, 56) || r.get(end64, 4) != kEnd64) return invalid("zip: the zip64 record is not where the file says");
    count = r.get(end64 + 32, 8);
    at = r.get(end64 + 48, 8);
  }
  std::map<std::string, std::string> out;
  for (uint64_t i = 0; i < count; ++i) {
    if (!r.has(at, 46) || r.get(at, 4) != kCentral) return invalid("zip: directory entry " + std::to_string(i) + " is not where it should be");
    uint64_t name = r.get(at + 28, 2), extra = r.get(at + 30, 2), comment = r.get(at + 32, 2);
    if (!r.has(at + 46, name + extra + comment)) return invalid("zip: a directory entry ends outside the file");
    if (r.get(at + 8, 2) & 1) return unsupported("zip: encrypted entries are not read");
    Entry e{r.get(at + 10, 2), r.get(at + 20, 4), r.get(at + 24, 4), r.get(at + 42, 4), static_cast<uint32_t>(r.get(at + 16, 4))};
    zip64_sizes(r, at + 46 + name, extra, e);
    std::string key(archive.substr(at + 46, name));
    auto bytes = extract(r, e);
    if (!bytes.ok()) return std::move(bytes).error().in(key);
    if (!out.emplace(key, std::move(*bytes)).second) return invalid("zip: two entries named '" + key + "'");
    at += 46 + name + extra + comment;
  }
  return out;
}

Result<std::string> zip(const std::map<std::string, std::string>& entries) {
  std::string out, directory;
  auto put = [](std::string& s, uint64_t v, int n) {
    for (int i = 0; i < n; ++i) s += static_cast<char>(v >> (8 * i));
  };
  if (entries.size() > 65534) return unsupported("zip: more than 65534 entries");
  for (const auto& [name, bytes] : entries) {
    if (bytes.size() + out.size() + name.size() + 100 > 0xfffffffe) return unsupported("zip: an archive of 4 GiB or more");
    uint64_t start = out.size();
    std::string fields;  // version 2.0, no flags, stored, the earliest date
    put(fields, 20, 2), put(fields, 0, 2), put(fields, 0, 2), put(fields, 0, 2), put(fields, 0x21, 2);
    put(fields, crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()), 4);
    put(fields, bytes.size(), 4), put(fields, bytes.size(), 4);
    put(fields, name.size(), 2), put(fields, 0, 2);
    put(out, kLocal, 4);
    out += fields + name + bytes;
    put(directory, kCentral, 4), put(directory, 20, 2);
    directory += fields;
    put(directory, 0, 2), put(directory, 0, 2), put(directory, 0, 2), put(directory, 0, 4), put(directory, start, 4);
    directory += name;
  }
  uint64_t at = out.size();
  out += directory;
  put(out, kEnd, 4), put(out, 0, 2), put(out, 0, 2), put(out, entries.size(), 2), put(out, entries.size(), 2);
  put(out, directory.size(), 4), put(out, at, 4), put(out, 0, 2);
  return out;
}

}  // namespace brisk
