#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace janus::control {

struct NodeField;

// A value as written, without any interpretation. YAML and the API server's JSON are read into it,
// and the typed object is read from it. Plain data, copyable.
struct Node {
  enum class Kind { kNull, kBool, kInteger, kFloat, kString, kList, kMap };

  Kind kind = Kind::kNull;
  bool boolean = false;           // kBool
  int64_t integer = 0;            // kInteger
  std::string text;               // kString: the string; other scalars: as written
  std::vector<Node> items;        // kList
  std::vector<NodeField> fields;  // kMap, in the order written; names distinct
  int line = 0;                   // 1-based; 0: unknown (JSON, or built in code)

  // Defined where NodeField is complete.
  Node();
  ~Node();
  Node(const Node&);
  Node(Node&&) noexcept;
  Node& operator=(const Node&);
  Node& operator=(Node&&) noexcept;

  static Node Map();
  static Node List();
  static Node String(std::string_view value);
  static Node Integer(int64_t value);
  static Node Bool(bool value);

  // The field of that name; null if it is missing or this is not a map.
  const Node* Find(std::string_view name) const;

  // Compares the values, not the lines.
  friend bool operator==(const Node& a, const Node& b);

  // Appends a field (kMap) and returns it; the reference is valid until the next Add.
  Node& Add(std::string_view name, Node value);

 private:
  static Node Of(Kind kind);
};

struct NodeField {
  std::string name;
  Node value;
};

// The name of a kind in messages: "a string", "a list", ...
std::string_view Describe(Node::Kind kind);

// True if it was written with a word that YAML reads as a boolean but people may not: No, off, y.
bool IsWordOfBoolean(const Node& node);

// The same for a value, with the value if it is short: "a string ('many')", "an integer (7)", "a
// boolean (Off, which YAML reads as false)", "a list".
std::string DescribeValue(const Node& node);

// An error in one field. `path` is the API server's: "spec.roles.experts.replicas",
// "spec.imagePullSecrets[1].name"; empty for the document itself.
struct FieldError {
  std::string path;
  std::string message;
  int line = 0;  // 1-based; 0: unknown

  friend bool operator==(const FieldError&, const FieldError&) = default;
};
using FieldErrors = std::vector<FieldError>;

// For people, in at most `most` bytes: "PATH: MESSAGE", several of them numbered. Paths with the
// same message share it; errors that do not fit are counted.
std::string JoinErrors(const FieldErrors& errors, size_t most);

// Which rules of a kind to check.
enum class Scope {
  kAll,
  kSingleFields,  // bounds and formats of single fields, for an object that was read in part
};

// The line of `path` in `root`, or of its deepest part that exists.
int LineOf(const Node& root, std::string_view path);

// Sets unknown lines from `root`.
void AddLines(const Node& root, FieldErrors& errors);

// One line per error: "service.yaml:7: spec.exchange.mode: message".
std::string FormatErrors(std::string_view file, const FieldErrors& errors);

}  // namespace janus::control
