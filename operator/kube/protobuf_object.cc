#include "operator/kube/protobuf_object.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "operator/kube/protobuf_reader.h"
#include "operator/kube/protobuf_scanner.h"
#include "operator/kube/protobuf_tables.h"

namespace janus::control {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kMagic = "k8s\0"sv;

// The fields of bytes with numbers 1 to 4: all that the messages around an object have.
using FewFields = std::array<std::string_view, 5>;

std::optional<FewFields> ReadFew(std::string_view message) {
  FewFields out;
  ProtobufScanner scanner(message);
  for (ProtobufEntry entry; scanner.Next(entry);) {
    if (entry.number >= out.size()) continue;
    if (entry.format != ProtobufEntry::Format::kBytes) return std::nullopt;
    out[entry.number] = entry.bytes;
  }
  if (scanner.is_broken()) return std::nullopt;
  return out;
}

struct Table {
  const ProtobufMessage* message = nullptr;
  bool is_list = false;
};

std::optional<Table> FindTable(std::string_view api_version, std::string_view kind) {
  constexpr std::string_view kList = "List";
  if (api_version == "v1" && kind == "Status") return Table{&ProtobufStatus(), false};
  for (const ProtobufKind& known : ProtobufKinds()) {
    if (known.api_version != api_version || !kind.starts_with(known.kind)) continue;
    const std::string_view rest = kind.substr(known.kind.size());
    if (rest.empty()) return Table{known.object, false};
    if (rest == kList) return Table{known.list, true};
  }
  return std::nullopt;
}

}  // namespace

bool IsProtobufMediaType(std::string_view content_type) {
  if (!content_type.starts_with(kProtobufMediaType)) return false;
  const std::string_view rest = content_type.substr(kProtobufMediaType.size());
  return rest.empty() || rest.front() == ';' || rest.front() == ' ';
}

bool HasProtobuf(const Resource& resource) {
  const std::string api_version = resource.ApiVersion();
  const auto kinds = ProtobufKinds();
  return std::any_of(kinds.begin(), kinds.end(), [&](const ProtobufKind& known) {
    return known.api_version == api_version && known.kind == resource.kind;
  });
}

bool IsProtobufObject(std::string_view bytes) {
  return bytes.starts_with(kMagic);
}

Result<Node> ReadProtobufObject(std::string_view bytes, std::string_view what,
                                const FieldFilter* keep) {
  const auto bad = [&](std::string_view why) {
    return InvalidArgument(std::string(what) + ": " + std::string(why));
  };
  if (!IsProtobufObject(bytes)) return bad("no object in protobuf");
  // runtime.Unknown: type, message, encoding, media type.
  const std::optional<FewFields> around = ReadFew(bytes.substr(kMagic.size()));
  if (!around) return bad("the object's envelope is broken");
  const std::optional<FewFields> type = ReadFew((*around)[1]);  // runtime.TypeMeta
  if (!type) return bad("the object's type is broken");
  if (!(*around)[3].empty() || !((*around)[4].empty() || (*around)[4] == kProtobufMediaType)) {
    return bad("the object is encoded otherwise");
  }
  const std::string_view api_version = (*type)[1];
  const std::string_view kind = (*type)[2];
  const std::optional<Table> table = FindTable(api_version, kind);
  if (!table) {
    return bad("a kind that is not read as protobuf: '" + std::string(kind.substr(0, 64)) + "'");
  }
  const std::vector<FieldFilter::Field>* kept = keep == nullptr ? nullptr : &keep->fields();
  std::vector<FieldFilter::Field> kept_of_list;
  if (table->is_list && kept != nullptr) {
    kept_of_list = {{"metadata", {}}, {"items", *kept}};
    kept = &kept_of_list;
  }
  Result<Node> read = ReadProtobuf((*around)[2], *table->message, kept);
  if (!read.ok()) return bad(read.status().message());
  std::vector<NodeField> fields;
  fields.reserve(read->fields.size() + 2);
  fields.push_back({"kind", Node::String(kind)});
  fields.push_back({"apiVersion", Node::String(api_version)});
  std::move(read->fields.begin(), read->fields.end(), std::back_inserter(fields));
  read->fields = std::move(fields);
  return read;
}

Result<ProtobufWatchEvent> ReadProtobufWatchEvent(std::string_view message) {
  const std::optional<FewFields> event = ReadFew(message);
  if (!event) return InvalidArgument("bytes that are no message");
  const std::optional<FewFields> object = ReadFew((*event)[2]);  // runtime.RawExtension
  if (!object) return InvalidArgument("its object is broken");
  return ProtobufWatchEvent{(*event)[1], (*object)[1]};
}

}  // namespace janus::control
