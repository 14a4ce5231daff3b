#include "operator/kube/packed_tree.h"

#include <utility>

namespace janus::control {
namespace {

// Each value begins with one of these. Numbers are LEB128, signed ones zigzag before that.
enum class Tag : unsigned char {
  kNull,
  kFalse,
  kTrue,
  kInteger,           // its value; written as std::to_string would
  kIntegerAsWritten,  // its value, and its text
  kFloat,             // text
  kString,            // text
  kList,              // how many, then the items
  kMap,               // how many, then of each field its name's number (or 0 and the name), value
};

void PutNumber(uint64_t number, std::string& out) {
  for (; number >= 0x80; number >>= 7) out += static_cast<char>(number | 0x80);
  out += static_cast<char>(number);
}

void PutText(std::string_view text, std::string& out) {
  PutNumber(text.size(), out);
  out += text;
}

void PutTag(Tag tag, std::string& out) {
  out += static_cast<char>(tag);
}

void Put(const Node& node, FieldNames& names, std::string& out) {
  switch (node.kind) {
    case Node::Kind::kNull:
      return PutTag(Tag::kNull, out);
    case Node::Kind::kBool:
      return PutTag(node.boolean ? Tag::kTrue : Tag::kFalse, out);
    case Node::Kind::kInteger: {
      const bool is_plain = node.text == std::to_string(node.integer);
      PutTag(is_plain ? Tag::kInteger : Tag::kIntegerAsWritten, out);
      const auto bits = static_cast<uint64_t>(node.integer);
      PutNumber((bits << 1) ^ (node.integer < 0 ? ~uint64_t{0} : 0), out);
      if (!is_plain) PutText(node.text, out);
      return;
    }
    case Node::Kind::kFloat:
    case Node::Kind::kString:
      PutTag(node.kind == Node::Kind::kFloat ? Tag::kFloat : Tag::kString, out);
      return PutText(node.text, out);
    case Node::Kind::kList:
      PutTag(Tag::kList, out);
      PutNumber(node.items.size(), out);
      for (const Node& item : node.items) Put(item, names, out);
      return;
    case Node::Kind::kMap:
      PutTag(Tag::kMap, out);
      PutNumber(node.fields.size(), out);
      for (const auto& [name, value] : node.fields) {
        const uint32_t number = names.Number(name);
        PutNumber(number, out);
        if (number == 0) PutText(name, out);
        Put(value, names, out);
      }
      return;
  }
}

// Reads what Put wrote: our own bytes, so there is nothing to doubt.
class Reader {
 public:
  Reader(std::string_view bytes, const FieldNames& names) : rest_(bytes), names_(names) {}

  Node Value() {
    const auto tag = static_cast<Tag>(Byte());
    switch (tag) {
      case Tag::kNull:
        return {};
      case Tag::kFalse:
      case Tag::kTrue:
        return Node::Bool(tag == Tag::kTrue);
      case Tag::kInteger:
      case Tag::kIntegerAsWritten: {
        const uint64_t bits = Number();
        Node out = Node::Integer(static_cast<int64_t>((bits >> 1) ^ (~(bits & 1) + 1)));
        if (tag == Tag::kIntegerAsWritten) out.text = Text();
        return out;
      }
      case Tag::kFloat:
      case Tag::kString: {
        Node out = Node::String(Text());
        if (tag == Tag::kFloat) out.kind = Node::Kind::kFloat;
        return out;
      }
      case Tag::kList: {
        Node out = Node::List();
        const uint64_t count = Number();
        out.items.reserve(count);
        for (uint64_t i = 0; i < count; ++i) out.items.push_back(Value());
        return out;
      }
      case Tag::kMap: {
        Node out = Node::Map();
        const uint64_t count = Number();
        out.fields.reserve(count);
        for (uint64_t i = 0; i < count; ++i) {
          const auto number = static_cast<uint32_t>(Number());
          const std::string_view name = number == 0 ? Text() : names_.Name(number);
          out.Add(name, Value());
        }
        return out;
      }
    }
    return {};
  }

 private:
  unsigned char Byte() {
    const auto byte = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    return byte;
  }
  uint64_t Number() {
    uint64_t out = 0;
    for (int shift = 0;; shift += 7) {
      const uint64_t byte = Byte();
      out |= (byte & 0x7f) << shift;
      if (byte < 0x80) return out;
    }
  }
  std::string_view Text() {
    const uint64_t size = Number();
    const std::string_view out = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return out;
  }

  std::string_view rest_;
  const FieldNames& names_;
};

}  // namespace

uint32_t FieldNames::Number(std::string_view name) {
  const auto found = numbers_.find(name);
  if (found != numbers_.end()) return found->second;
  if (numbers_.size() == kMost) return 0;
  const auto number = static_cast<uint32_t>(numbers_.size() + 1);
  names_[number - 1] = name;
  numbers_.emplace(names_[number - 1], number);
  return number;
}

PackedTree::PackedTree(const Node& root, FieldNames& names) {
  std::string bytes;
  Put(root, names, bytes);
  bytes_ = std::string(bytes.data(), bytes.size());  // no larger than it has to be
}

Node PackedTree::Unpack(const FieldNames& names) const {
  return Reader(bytes_, names).Value();
}

}  // namespace janus::control
