#include "operator/kube/packed_tree.h"

#include <algorithm>
#include <string>
#include <utility>

namespace janus::control {
namespace {

// Each value starts with a tag. Numbers are LEB128, signed ones with zigzag encoding.
enum class Tag : unsigned char {
  kNull,
  kFalse,
  kTrue,
  kInteger,           // value; its text is std::to_string of it
  kIntegerAsWritten,  // value and text
  kFloat,             // text
  kString,            // text
  kList,              // number of items, then the items
  kMap,               // number of fields, then name and value of each
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

void Put(const Node& node, std::string& out) {
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
      for (const Node& item : node.items) Put(item, out);
      return;
    case Node::Kind::kMap:
      PutTag(Tag::kMap, out);
      PutNumber(node.fields.size(), out);
      for (const auto& [name, value] : node.fields) {
        PutText(name, out);
        Put(value, out);
      }
      return;
  }
}

// Reads what Put wrote. These are our own bytes, so it does not check them.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  bool AtEnd() const { return rest_.empty(); }

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
          const std::string_view name = Text();
          out.Add(name, Value());
        }
        return out;
      }
    }
    return {};
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

 private:
  unsigned char Byte() {
    const auto byte = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    return byte;
  }

  std::string_view rest_;
};

// A reference is not shorter than fewer bytes.
constexpr size_t kShortest = 4;

// Two texts, used as one.
struct Joined {
  std::string_view known;
  std::string_view text;

  size_t size() const { return known.size() + text.size(); }
  char operator[](size_t place) const {
    return place < known.size() ? known[place] : text[place - known.size()];
  }
};

size_t HashAt(const Joined& all, size_t place) {
  uint32_t four = 0;
  for (size_t i = 0; i < kShortest; ++i) {
    four = four << 8 | static_cast<unsigned char>(all[place + i]);
  }
  return four * 2654435761U >> 20;  // Knuth's multiplicative hash: 12 bits
}

// Compresses the text: some bytes, then the length and distance of bytes to repeat, and so on.
std::string Squeeze(const Joined& all, Phrases::Places places) {
  std::string out;
  size_t said = all.known.size();
  const auto say = [&](size_t end) {
    PutText(all.text.substr(said - all.known.size(), end - said), out);
  };
  for (size_t at = said; at + kShortest <= all.size();) {
    uint32_t& place = places[HashAt(all, at)];
    const size_t from = std::exchange(place, static_cast<uint32_t>(at + 1));
    size_t length = 0;
    if (from != 0) {
      while (at + length < all.size() && all[from - 1 + length] == all[at + length]) ++length;
    }
    if (length < kShortest) {
      ++at;
      continue;
    }
    say(at);
    PutNumber(length, out);
    PutNumber(at - (from - 1), out);
    said = at += length;
  }
  say(all.size());
  return out;
}

std::string Expand(std::string_view squeezed, std::string_view known) {
  std::string out;
  Reader reader(squeezed);
  for (;;) {
    out += reader.Text();
    if (reader.AtEnd()) return out;
    const uint64_t length = reader.Number();
    const size_t from = known.size() + out.size() - reader.Number();
    // The copy may overlap its own output.
    for (uint64_t i = 0; i < length; ++i) out += Joined{known, out}[from + i];
  }
}

}  // namespace

void Phrases::Add(std::string_view text) {
  std::copy(text.begin(), text.end(), text_.get() + size_);
  const Joined all{First(size_), text};
  for (size_t at = size_; at + kShortest <= all.size(); ++at) {
    places_[HashAt(all, at)] = static_cast<uint32_t>(at + 1);
  }
  size_ = all.size();
}

void Phrases::Learn(const PackedTree& packed) {
  const std::string text = packed.Flat(*this);
  if (packed.size() > text.size() / 2 && text.size() <= kMost - size_) Add(text);
}

PackedTree::PackedTree(const Node& root, const Phrases& phrases)
    : phrases_(static_cast<uint32_t>(phrases.size())) {
  std::string flat;
  Put(root, flat);
  const std::string squeezed = Squeeze({phrases.First(phrases_), flat}, phrases.places());
  size_ = static_cast<uint32_t>(squeezed.size());
  const std::shared_ptr<char[]> bytes(new char[size_]);
  std::copy(squeezed.begin(), squeezed.end(), bytes.get());
  bytes_ = bytes;
}

std::string PackedTree::Flat(const Phrases& phrases) const {
  return Expand({bytes_.get(), size_}, phrases.First(phrases_));
}

Node PackedTree::Unpack(const Phrases& phrases) const {
  const std::string flat = Flat(phrases);
  return Reader(flat).Value();
}

}  // namespace janus::control
