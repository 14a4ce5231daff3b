#include "operator/local/store/json_patch.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "operator/api/json.h"
#include "operator/local/store/tree_edit.h"

namespace janus::control {
namespace {

constexpr size_t kMaxOperations = 10'000;
constexpr size_t kMaxBytes = 16 << 20;

using Pointer = std::vector<std::string>;

Result<Pointer> ParsePointer(std::string_view text) {
  if (!text.empty() && text.front() != '/') {
    return InvalidArgument("'" + std::string(text.substr(0, 64)) +
                           "' is no JSON Pointer; want /a/b");
  }
  Pointer out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '/') {
      out.emplace_back();
    } else if (text[i] != '~') {
      out.back() += text[i];
    } else if (i + 1 < text.size() && (text[i + 1] == '0' || text[i + 1] == '1')) {
      out.back() += text[++i] == '0' ? '~' : '/';
    } else {
      return InvalidArgument("'" + std::string(text.substr(0, 64)) +
                             "' is no JSON Pointer; after ~ comes 0 or 1");
    }
  }
  return out;
}

std::string ToText(const Pointer& pointer) {
  std::string out;
  for (const std::string& token : pointer) out += "/" + token.substr(0, 64);
  return out.empty() ? "the document" : out;
}

Status NotThere(const Pointer& pointer) {
  return FailedPrecondition(ToText(pointer) + " is not there");
}

// Digits only, without a leading zero, at most `last`.
std::optional<size_t> Index(const std::string& token, size_t last) {
  if (token.empty() || token.size() > 9 || (token.size() > 1 && token[0] == '0')) return {};
  size_t index = 0;
  for (const char c : token) {
    if (c < '0' || c > '9') return {};
    index = index * 10 + static_cast<size_t>(c - '0');
  }
  if (index > last) return {};
  return index;
}

Node* Child(Node& parent, const std::string& token) {
  if (parent.kind == Node::Kind::kMap) return FindMutable(parent, token);
  if (parent.kind != Node::Kind::kList || parent.items.empty()) return nullptr;
  const std::optional<size_t> index = Index(token, parent.items.size() - 1);
  return index ? &parent.items[*index] : nullptr;
}

// The value at the pointer's first `depth` tokens, or null.
Node* At(Node& document, const Pointer& pointer, size_t depth) {
  Node* node = &document;
  for (size_t i = 0; i < depth && node != nullptr; ++i) node = Child(*node, pointer[i]);
  return node;
}

Status Add(Node& document, const Pointer& pointer, Node value) {
  if (pointer.empty()) {
    document = std::move(value);
    return OkStatus();
  }
  Node* const parent = At(document, pointer, pointer.size() - 1);
  const std::string& token = pointer.back();
  if (parent != nullptr && parent->kind == Node::Kind::kMap) {
    PutField(*parent, token, std::move(value));
    return OkStatus();
  }
  if (parent == nullptr || parent->kind != Node::Kind::kList) return NotThere(pointer);
  const size_t end = parent->items.size();
  const std::optional<size_t> index = token == "-" ? std::optional(end) : Index(token, end);
  if (!index) return NotThere(pointer);
  parent->items.insert(parent->items.begin() + static_cast<ptrdiff_t>(*index), std::move(value));
  return OkStatus();
}

// Removes the value from the document and returns it.
Result<Node> Take(Node& document, const Pointer& pointer) {
  Node* const found = At(document, pointer, pointer.size());
  if (found == nullptr) return NotThere(pointer);
  Node value = std::move(*found);
  if (pointer.empty()) {
    document = Node();
    return value;
  }
  Node& parent = *At(document, pointer, pointer.size() - 1);
  if (parent.kind == Node::Kind::kMap) {
    RemoveField(parent, pointer.back());
  } else {
    parent.items.erase(parent.items.begin() + (found - parent.items.data()));
  }
  return value;
}

// One parsed operation.
class Operation {
 public:
  static Result<Operation> Read(const Node& node) {
    Operation out;
    const Node* const op = node.Find("op");
    if (op == nullptr || op->kind != Node::Kind::kString) {
      return InvalidArgument("an operation of a JSON Patch has a string 'op'");
    }
    out.name_ = op->text;
    JANUS_ASSIGN_OR_RETURN(out.path_, ReadPointer(node, "path"));
    const bool has_from = out.name_ == "move" || out.name_ == "copy";
    const bool has_value = out.name_ == "add" || out.name_ == "replace" || out.name_ == "test";
    if (!has_from && !has_value && out.name_ != "remove") {
      return InvalidArgument("'" + out.name_.substr(0, 64) +
                             "' is no operation; use add, remove, replace, move, copy or test");
    }
    if (has_from) {
      JANUS_ASSIGN_OR_RETURN(out.from_, ReadPointer(node, "from"));
    }
    if (has_value) {
      const Node* const value = node.Find("value");
      if (value == nullptr) return InvalidArgument("'" + out.name_ + "' has no 'value'");
      out.value_ = value;
    }
    return out;
  }

  Status Do(Node& document) const {
    if (name_ == "add") return Add(document, path_, *value_);
    if (name_ == "remove") return Take(document, path_).status();
    if (name_ == "move") return Move(document);
    if (name_ == "copy") return Copy(document);
    Node* const found = At(document, path_, path_.size());
    if (found == nullptr) return NotThere(path_);
    if (name_ == "replace") {
      *found = *value_;
      return OkStatus();
    }
    if (IsSameJson(*found, *value_)) return OkStatus();
    return FailedPrecondition("the test of " + ToText(path_) + " failed: it is " +
                              WriteJson(*found).substr(0, 64));
  }

 private:
  static Result<Pointer> ReadPointer(const Node& node, std::string_view field) {
    const Node* const text = node.Find(field);
    if (text == nullptr || text->kind != Node::Kind::kString) {
      return InvalidArgument("an operation of a JSON Patch has no '" + std::string(field) + "'");
    }
    return ParsePointer(text->text);
  }

  Status Move(Node& document) const {
    const bool is_inside =
        path_.size() > from_.size() && std::equal(from_.begin(), from_.end(), path_.begin());
    if (is_inside) return FailedPrecondition(ToText(from_) + " cannot be moved into itself");
    JANUS_ASSIGN_OR_RETURN(Node value, Take(document, from_));
    return Add(document, path_, std::move(value));
  }

  Status Copy(Node& document) const {
    const Node* const found = At(document, from_, from_.size());
    if (found == nullptr) return NotThere(from_);
    Node value = *found;
    JANUS_RETURN_IF_ERROR(Add(document, path_, std::move(value)));
    if (BytesOf(document) <= kMaxBytes) return OkStatus();
    return FailedPrecondition("the copies make the document larger than 16 MiB");
  }

  std::string name_;
  Pointer path_;
  Pointer from_;
  const Node* value_ = nullptr;
};

}  // namespace

Result<Node> JsonPatch(Node document, const Node& patch) {
  if (patch.kind != Node::Kind::kList) {
    return InvalidArgument("a JSON Patch is a list of operations, this is " +
                           std::string(Describe(patch.kind)));
  }
  if (patch.items.size() > kMaxOperations) {
    return InvalidArgument("a JSON Patch has at most 10,000 operations, this has " +
                           std::to_string(patch.items.size()));
  }
  for (size_t i = 0; i < patch.items.size(); ++i) {
    const std::string which = "operation " + std::to_string(i);
    Result<Operation> operation = Operation::Read(patch.items[i]);
    if (!operation.ok()) return std::move(operation).status().Annotate(which);
    if (Status done = operation->Do(document); !done.ok()) return std::move(done).Annotate(which);
  }
  return document;
}

}  // namespace janus::control
