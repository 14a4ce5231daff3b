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

// What trees of one kind have in common: those that were seen first, as far as they were unlike
// each other. Bounded, and never changed but at its end. Thread-compatible; but what was there when
// a tree was packed any thread may read at any time.
class Phrases {
 public:
  static constexpr size_t kMost = 16384;

  Phrases() : text_(new char[kMost]) {}

  // Takes in what `packed` says of itself alone, if that is much and there is room for all of it.
  void Learn(const PackedTree& packed);
  size_t size() const { return size_; }
  std::string_view First(size_t size) const { return {text_.get(), size}; }

  // Where four bytes were seen last, by a hash of theirs: one more than the place; 0: nowhere.
  using Places = std::array<uint32_t, 4096>;
  const Places& places() const { return places_; }

 private:
  void Add(std::string_view text);

  const std::unique_ptr<char[]> text_;  // does not move
  size_t size_ = 0;
  Places places_{};
};

// A tree as bytes, for objects that are kept by the thousand and read a few at a time: a Node takes
// 104 bytes and its name 32 before their texts; here a whole pod takes some 300 when another one
// was packed before it, since what it has from there, or has said before, is a reference to that
// (LZ77: Ziv, Lempel 1977). Immutable, copies share the bytes; thread-safe.
class PackedTree {
 public:
  PackedTree() = default;  // REQUIRES: not unpacked
  PackedTree(const Node& root, const Phrases& phrases);

  // `phrases`: those it was packed with. Lines are not kept.
  Node Unpack(const Phrases& phrases) const;
  size_t size() const { return size_; }

 private:
  friend class Phrases;
  // The tree as Reader reads it.
  std::string Flat(const Phrases& phrases) const;

  std::shared_ptr<const char[]> bytes_;
  uint32_t size_ = 0;
  uint32_t phrases_ = 0;  // how much there was of them
};

}  // namespace janus::control
