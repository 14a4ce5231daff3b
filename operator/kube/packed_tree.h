#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "operator/api/tree.h"

namespace janus::control {

// Names of fields by number, so that trees of one kind hold each name once between them. Number is
// one thread's; other threads may look up numbers that were handed to them under a lock.
class FieldNames {
 public:
  // Objects carry names of their users' choice (labels, annotations); beyond these none is taken
  // in.
  static constexpr uint32_t kMost = 1024;

  FieldNames() : names_(new std::string[kMost]) {}

  // 1 to kMost; 0: there is no room for it, now or later.
  uint32_t Number(std::string_view name);
  const std::string& Name(uint32_t number) const { return names_[number - 1]; }

 private:
  std::unique_ptr<std::string[]> names_;  // their places do not move
  std::map<std::string_view, uint32_t> numbers_;
};

// A tree as bytes, for objects that are kept by the thousand and read a few at a time: a Node takes
// 104 bytes and its name 32 before their texts, here a field of a pod takes some 10 in all. Equal
// bytes, by the same names, are equal trees. Immutable; thread-safe.
class PackedTree {
 public:
  PackedTree(const Node& root, FieldNames& names);

  // `names`: those it was packed with. Lines are not kept.
  Node Unpack(const FieldNames& names) const;
  size_t size() const { return bytes_.size(); }

  friend bool operator==(const PackedTree&, const PackedTree&) = default;

 private:
  std::string bytes_;
};

}  // namespace janus::control
