#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "operator/api/tree.h"

namespace janus::control {

class PackedTree;

// Text that trees of one kind have in common: the first trees seen, where they differed from each
// other. Bounded and append-only. Thread-compatible; any thread may read the text that existed when
// a tree was packed.
class Phrases {
 public:
  static constexpr size_t kMost = 16384;

  Phrases() : text_(new char[kMost]) {}

  // Adds the text that `packed` does not share yet, if it is large enough and all of it fits.
  void Learn(const PackedTree& packed);
  size_t size() const { return size_; }
  std::string_view First(size_t size) const { return {text_.get(), size}; }

  // Where four bytes were last seen, by their hash: position plus one; 0: not seen.
  using Places = std::array<uint32_t, 4096>;
  const Places& places() const { return places_; }

 private:
  void Add(std::string_view text);

  const std::unique_ptr<char[]> text_;  // does not move
  size_t size_ = 0;
  Places places_{};
};

// A tree as compact bytes, for thousands of stored objects that are rarely read. A Node takes 104
// bytes and its name 32, plus their texts. Here a whole pod takes about 300 bytes after a similar
// pod was packed: text seen before becomes a reference (LZ77: Ziv, Lempel 1977). Immutable, copies
// share the bytes; thread-safe.
class PackedTree {
 public:
  PackedTree() = default;  // REQUIRES: Unpack is not called
  PackedTree(const Node& root, const Phrases& phrases);

  // `phrases`: those it was packed with. Line numbers are not kept.
  Node Unpack(const Phrases& phrases) const;
  size_t size() const { return size_; }

 private:
  friend class Phrases;
  // The tree in the form that Reader parses.
  std::string Flat(const Phrases& phrases) const;

  std::shared_ptr<const char[]> bytes_;
  uint32_t size_ = 0;
  uint32_t phrases_ = 0;  // size of the phrases when packed
};

}  // namespace janus::control
