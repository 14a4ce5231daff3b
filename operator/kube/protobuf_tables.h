#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace janus::control {

// How the API's built-in kinds look as protobuf and as JSON: one table per message, so that one
// reader (protobuf_reader.h) makes of protobuf the tree that ParseJson makes of the JSON. The
// tables are made of the API's own Go types by e2e/build/kube/protobuftables.

// What a value is. The first three by their wire type, the others bytes: text, or a message.
enum class ProtobufType : uint8_t {
  kString,
  kBool,
  kInteger,
  kBytes,        // base64 in JSON
  kMessage,      // by ProtobufField::message
  kTime,         // metav1.Time: RFC 3339, or null
  kQuantity,     // its text
  kIntOrString,  // a number or a text
  kJson,         // metav1.FieldsV1: JSON as it is
};

enum class ProtobufShape : uint8_t {
  kOne,
  kList,
  kMap,     // by text; in JSON in the order of the keys
  kInline,  // a message whose fields JSON shows as those of the message around it
};

// What JSON says of a field that the wire does not carry.
enum class ProtobufAbsent : uint8_t {
  kLeftOut,
  kLeftOutIfZero,  // and so if it carries "", 0, false or no time
  kNull,
  kZero,  // "", 0, false, a message with nothing in it
};

struct ProtobufMessage;

struct ProtobufField {
  uint32_t number = 0;
  std::string_view name;  // JSON's
  ProtobufType type = ProtobufType::kString;
  ProtobufShape shape = ProtobufShape::kOne;
  ProtobufAbsent absent = ProtobufAbsent::kLeftOut;
  const ProtobufMessage* message = nullptr;  // of a kMessage
};

// Fields in the order in which JSON has them. None holds itself, so that trees have a bounded
// depth.
struct ProtobufMessage {
  static constexpr size_t kMostFields = 64;

  constexpr ProtobufMessage() = default;
  template <size_t kFields>
  constexpr ProtobufMessage(const ProtobufField (&of)[kFields])  // NOLINT: implicit by design
      : fields(of) {
    static_assert(kFields <= kMostFields);
  }

  std::span<const ProtobufField> fields;
};

struct ProtobufKind {
  std::string_view api_version;
  std::string_view kind;
  const ProtobufMessage* object;
  const ProtobufMessage* list;  // of kind + "List"
};

std::span<const ProtobufKind> ProtobufKinds();
// metav1.Status.
const ProtobufMessage& ProtobufStatus();

}  // namespace janus::control
