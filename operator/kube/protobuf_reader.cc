#include "operator/kube/protobuf_reader.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "common/utf8.h"
#include "operator/api/json.h"
#include "operator/api/rfc3339.h"
#include "operator/kube/base64.h"
#include "operator/kube/protobuf_scanner.h"

namespace janus::control {
namespace {

using Format = ProtobufEntry::Format;
using Fields = std::vector<FieldFilter::Field>;

constexpr size_t kMaxValues = 4'000'000;  // as the reader of JSON has it

// Year 1 to 9999, seconds.
constexpr int64_t kFirstSecond = -62135596800;
constexpr int64_t kLastSecond = 253402300799;

// As Go's JSON writes texts: each byte that is no part of UTF-8 becomes U+FFFD.
std::string Utf8(std::string_view text) {
  std::string out;
  for (;;) {
    const size_t broken = FindBrokenUtf8(text);
    if (broken == text.npos) return out.empty() ? std::string(text) : out.append(text);
    out.append(text.substr(0, broken)).append("\xEF\xBF\xBD");
    text.remove_prefix(broken + 1);
  }
}

Format FormatOf(ProtobufType type) {
  const bool is_number = type == ProtobufType::kBool || type == ProtobufType::kInteger;
  return is_number ? Format::kVarint : Format::kBytes;
}

size_t CountValues(const Node& node) {
  size_t out = 1;
  for (const Node& item : node.items) out += CountValues(item);
  for (const NodeField& field : node.fields) out += CountValues(field.value);
  return out;
}

class Reader {
 public:
  // Appends the fields of the message to `out`, a map. False: error() says why.
  bool Message(std::string_view message, const ProtobufMessage& table, const Fields* kept,
               Node& out);
  const std::string& error() const { return error_; }

 private:
  // Where a field stands in its message.
  struct Place {
    size_t begin;  // its first entry
    size_t end;    // behind its last one
    bool is_there;
    ProtobufEntry last;
  };
  using Places = std::array<Place, ProtobufMessage::kMostFields>;

  bool Find(std::string_view message, const ProtobufMessage& table, Places& places);
  bool Field(const ProtobufField& field, std::string_view message, const Place& place,
             const Fields* kept, Node& out);
  // `entries`: from the first to the last of the field, others among them.
  bool List(const ProtobufField& field, std::string_view entries, const Fields* kept, Node& out);
  bool Map(const ProtobufField& field, std::string_view entries, const Fields* kept, Node& out);
  bool Value(const ProtobufField& field, const ProtobufEntry& entry, const Fields* kept, Node& out);
  bool Time(std::string_view message, Node& out);
  bool IntOrString(std::string_view message, Node& out);
  // The last entry of that number and format; absent: as it was.
  bool Last(std::string_view message, uint32_t number, Format format, ProtobufEntry& out);
  bool IsZero(const ProtobufField& field, const ProtobufEntry& entry);
  bool Count(size_t values);
  bool Fail(std::string_view why);

  size_t values_ = 0;
  std::string error_;
};

bool Reader::Fail(std::string_view why) {
  if (error_.empty()) error_ = why;
  return false;
}

bool Reader::Count(size_t values) {
  values_ += values;
  return values_ <= kMaxValues || Fail("more than 4,000,000 values");
}

bool Reader::Find(std::string_view message, const ProtobufMessage& table, Places& places) {
  for (size_t i = 0; i < table.fields.size(); ++i) places[i].is_there = false;
  ProtobufScanner scanner(message);
  size_t at = 0;  // entries come in about the order of the table
  for (size_t begin = 0;; begin = message.size() - scanner.left()) {
    ProtobufEntry entry;
    if (!scanner.Next(entry)) break;
    const size_t size = table.fields.size();
    for (size_t tried = 0; tried < size; ++tried, at = at + 1 == size ? 0 : at + 1) {
      const ProtobufField& field = table.fields[at];
      if (field.number != entry.number) continue;
      const bool is_packed = field.shape == ProtobufShape::kList && entry.format == Format::kBytes;
      const bool is_map = field.shape == ProtobufShape::kMap;
      const Format wanted = is_map ? Format::kBytes : FormatOf(field.type);
      if (entry.format != wanted && !is_packed) {
        return Fail(std::string(field.name) + ": not of its type");
      }
      Place& place = places[at];
      if (!place.is_there) place.begin = begin;
      place.is_there = true;
      place.end = message.size() - scanner.left();
      place.last = entry;
      break;
    }
  }
  return !scanner.is_broken() || Fail("bytes that are no field");
}

bool Reader::Message(std::string_view message, const ProtobufMessage& table, const Fields* kept,
                     Node& out) {
  Places places;
  if (!Find(message, table, places)) return false;
  for (size_t i = 0; i < table.fields.size(); ++i) {
    const ProtobufField& field = table.fields[i];
    if (field.shape == ProtobufShape::kInline) {
      const std::string_view inlined = places[i].is_there ? places[i].last.bytes : "";
      if (!Message(inlined, *field.message, kept, out)) return false;
      continue;
    }
    const Fields* kept_below = nullptr;
    if (kept != nullptr) {
      const auto found =
          std::find_if(kept->begin(), kept->end(),
                       [&](const FieldFilter::Field& want) { return want.name == field.name; });
      if (found == kept->end()) continue;
      if (!found->fields.empty()) kept_below = &found->fields;
    }
    if (!Field(field, message, places[i], kept_below, out)) {
      if (error_.find(':') == error_.npos) error_ = std::string(field.name) + ": " + error_;
      return false;
    }
  }
  return true;
}

bool Reader::Field(const ProtobufField& field, std::string_view message, const Place& place,
                   const Fields* kept, Node& out) {
  if (!place.is_there) {
    switch (field.absent) {
      case ProtobufAbsent::kLeftOut:
      case ProtobufAbsent::kLeftOutIfZero:
        return true;
      case ProtobufAbsent::kNull:
        out.Add(field.name, Node());
        return Count(1);
      case ProtobufAbsent::kZero:
        return Value(field, {}, kept, out.Add(field.name, Node()));
    }
  }
  const std::string_view entries = message.substr(place.begin, place.end - place.begin);
  switch (field.shape) {
    case ProtobufShape::kList:
      return List(field, entries, kept, out.Add(field.name, Node::List()));
    case ProtobufShape::kMap:
      return Map(field, entries, kept, out.Add(field.name, Node::Map()));
    case ProtobufShape::kOne:
    case ProtobufShape::kInline:
      break;
  }
  if (field.absent == ProtobufAbsent::kLeftOutIfZero && IsZero(field, place.last)) {
    return error_.empty();
  }
  return Value(field, place.last, kept, out.Add(field.name, Node()));
}

bool Reader::List(const ProtobufField& field, std::string_view entries, const Fields* kept,
                  Node& out) {
  if (!Count(1)) return false;
  ProtobufScanner scanner(entries);
  for (ProtobufEntry entry; scanner.Next(entry);) {
    if (entry.number != field.number) continue;
    if (entry.format == FormatOf(field.type)) {
      if (!Value(field, entry, kept, out.items.emplace_back())) return false;
      continue;
    }
    ProtobufScanner packed(entry.bytes);
    ProtobufEntry number;
    while (packed.NextPacked(number.varint)) {
      if (!Value(field, number, kept, out.items.emplace_back())) return false;
    }
    if (packed.is_broken()) return Fail("not of its type");
  }
  out.items.shrink_to_fit();
  return true;
}

bool Reader::Map(const ProtobufField& field, std::string_view entries, const Fields* kept,
                 Node& out) {
  if (!Count(1)) return false;
  ProtobufScanner scanner(entries);
  for (ProtobufEntry entry; scanner.Next(entry);) {
    if (entry.number != field.number) continue;
    ProtobufEntry key;
    ProtobufEntry value;
    if (!Last(entry.bytes, 1, Format::kBytes, key) ||
        !Last(entry.bytes, 2, FormatOf(field.type), value)) {
      return false;
    }
    std::string name = Utf8(key.bytes);
    if (kept != nullptr && std::none_of(kept->begin(), kept->end(),
                                        [&](const auto& want) { return want.name == name; })) {
      continue;
    }
    out.fields.push_back({std::move(name), Node()});
    if (!Value(field, value, nullptr, out.fields.back().value)) return false;
  }
  // Of a key that comes twice the last one counts.
  std::reverse(out.fields.begin(), out.fields.end());
  std::stable_sort(out.fields.begin(), out.fields.end(),
                   [](const NodeField& a, const NodeField& b) { return a.name < b.name; });
  const auto end =
      std::unique(out.fields.begin(), out.fields.end(),
                  [](const NodeField& a, const NodeField& b) { return a.name == b.name; });
  out.fields.erase(end, out.fields.end());
  out.fields.shrink_to_fit();
  return true;
}

bool Reader::Last(std::string_view message, uint32_t number, Format format, ProtobufEntry& out) {
  ProtobufScanner scanner(message);
  for (ProtobufEntry entry; scanner.Next(entry);) {
    if (entry.number != number) continue;
    if (entry.format != format) return Fail("not of its type");
    out = entry;
  }
  return !scanner.is_broken() || Fail("bytes that are no field");
}

bool Reader::IsZero(const ProtobufField& field, const ProtobufEntry& entry) {
  if (field.type != ProtobufType::kTime) return entry.bytes.empty() && entry.varint == 0;
  Node time;
  return !Time(entry.bytes, time) || time.kind == Node::Kind::kNull;
}

// `entry`: one of nothing where there is none.
bool Reader::Value(const ProtobufField& field, const ProtobufEntry& entry, const Fields* kept,
                   Node& out) {
  if (!Count(1)) return false;
  switch (field.type) {
    case ProtobufType::kString:
      out = Node::String(Utf8(entry.bytes));
      return true;
    case ProtobufType::kBool:
      out = Node::Bool(entry.varint != 0);
      return true;
    case ProtobufType::kInteger:
      out = Node::Integer(static_cast<int64_t>(entry.varint));
      return true;
    case ProtobufType::kBytes:
      out = Node::String(EncodeBase64(entry.bytes));
      return true;
    case ProtobufType::kMessage:
      out = Node::Map();
      if (!Message(entry.bytes, *field.message, kept, out)) return false;
      out.fields.shrink_to_fit();
      return true;
    case ProtobufType::kTime:
      return Time(entry.bytes, out);
    case ProtobufType::kQuantity: {
      ProtobufEntry text;
      if (!Last(entry.bytes, 1, Format::kBytes, text)) return false;
      out = Node::String(text.bytes.empty() ? "0" : Utf8(text.bytes));
      return true;
    }
    case ProtobufType::kIntOrString:
      return IntOrString(entry.bytes, out);
    case ProtobufType::kJson: {
      ProtobufEntry raw;
      if (!Last(entry.bytes, 1, Format::kBytes, raw)) return false;
      if (raw.bytes.empty()) return true;  // null
      Result<Node> read = ParseJson(raw.bytes, field.name);
      if (!read.ok()) return Fail(read.status().message());
      out = *std::move(read);
      return Count(CountValues(out));
    }
  }
  return Fail("of no type");
}

// Seconds and nanoseconds since 1970; the API's JSON has whole seconds, and null for Go's zero
// time, which is the first second of year 1 and goes over the wire as nothing.
bool Reader::Time(std::string_view message, Node& out) {
  ProtobufEntry seconds;
  if (!Last(message, 1, Format::kVarint, seconds)) return false;
  const auto since_1970 = static_cast<int64_t>(seconds.varint);
  if (message.empty() || since_1970 == kFirstSecond) return true;  // null
  if (since_1970 < kFirstSecond || since_1970 > kLastSecond)
    return Fail("no time of years to 9999");
  out = Node::String(FormatTime(std::chrono::sys_seconds(std::chrono::seconds(since_1970))));
  return true;
}

bool Reader::IntOrString(std::string_view message, Node& out) {
  ProtobufEntry type;
  ProtobufEntry number;
  ProtobufEntry text;
  if (!Last(message, 1, Format::kVarint, type) || !Last(message, 2, Format::kVarint, number) ||
      !Last(message, 3, Format::kBytes, text)) {
    return false;
  }
  if (type.varint > 1) return Fail("neither a number nor a text");
  out = type.varint == 0 ? Node::Integer(static_cast<int32_t>(number.varint))
                         : Node::String(Utf8(text.bytes));
  return true;
}

}  // namespace

Result<Node> ReadProtobuf(std::string_view message, const ProtobufMessage& table,
                          const std::vector<FieldFilter::Field>* kept) {
  Reader reader;
  Node out = Node::Map();
  if (!reader.Message(message, table, kept, out)) return InvalidArgument(reader.error());
  return out;
}

}  // namespace janus::control
