/// Numbers and texts as bytes on the wire: little-endian, texts with their length before them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tpc {

class WireWriter {
 public:
  void byte(uint8_t value) { bytes_.push_back(static_cast<char>(value)); }
  void u32(uint32_t value) { number(value, 4); }
  void i64(int64_t value) { number(static_cast<uint64_t>(value), 8); }
  void text(std::string_view value) {
    u32(static_cast<uint32_t>(value.size()));
    bytes_ += value;
  }
  void raw(std::string_view value) { bytes_ += value; }
  std::string take() { return std::move(bytes_); }

 private:
  void number(uint64_t value, int count) {
    for (int i = 0; i < count; ++i) byte(static_cast<uint8_t>(value >> (8 * i)));
  }
  std::string bytes_;
};

/// Reads what may be anything: past the end every value is 0 or "", and is_good() is false from then on.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : bytes_(bytes) {}
  uint8_t byte() { return static_cast<uint8_t>(number(1)); }
  uint32_t u32() { return static_cast<uint32_t>(number(4)); }
  int64_t i64() { return static_cast<int64_t>(number(8)); }
  std::string text() { return std::string(raw(u32())); }
  std::string_view raw(size_t count) {
    if (count > bytes_.size()) {
      is_good_ = false;
      bytes_ = {};
      return {};
    }
    std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  bool is_good() const { return is_good_; }
  /// Nothing is missing and nothing is left.
  bool is_complete() const { return is_good_ && bytes_.empty(); }

 private:
  uint64_t number(size_t count) {
    std::string_view taken = raw(count);
    uint64_t value = 0;
    for (size_t i = 0; i < taken.size(); ++i) value |= uint64_t{static_cast<uint8_t>(taken[i])} << (8 * i);
    return value;
  }
  std::string_view bytes_;
  bool is_good_ = true;
};

}  // namespace tpc
