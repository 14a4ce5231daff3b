#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace janus::control {

struct NodeField;

// A value as it was written, before anything is known of its meaning: YAML and the API server's
// JSON are both read into it, and the typed object is read from it. Plain data, copyable.
struct Node {
  enum class Kind { kNull, kBool, kInteger, kFloat, kString, kList, kMap };

  Kind kind = Kind::kNull;
  bool boolean = false;           // kBool
  int64_t integer = 0;            // kInteger
  std::string text;               // kString: the string; other scalars: as written
  std::vector<Node> items;        // kList
  std::vector<NodeField> fields;  // kMap, in the order written; names distinct
  int line = 0;                   // 1-based; 0: unknown (JSON, or built by us)

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

  // The field of that name, or null when this is no map or has none.
  const Node* Find(std::string_view name) const;

  // The same value, wherever it was written.
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

// "a string", "a list", ...: how messages call a kind.
std::string_view Describe(Node::Kind kind);

// Whether it was written in a word that YAML takes for a boolean and a person may not: No, off, y.
bool IsWordOfBoolean(const Node& node);

// The same of a value, which is named where it is short: "a string ('many')", "an integer (7)",
// "a boolean (Off, which YAML reads as false)", "a list".
std::string DescribeValue(const Node& node);

// What is wrong with one field. `path` is the API server's: "spec.roles.experts.replicas",
// "spec.imagePullSecrets[1].name"; empty for the document itself.
struct FieldError {
  std::string path;
  std::string message;
  int line = 0;  // 1-based; 0: unknown

  friend bool operator==(const FieldError&, const FieldError&) = default;
};
using FieldErrors = std::vector<FieldError>;

// For people, in at most `most` bytes: "PATH: MESSAGE", several of them numbered. Paths with the
// same message share it; what there is no room for is counted.
std::string JoinErrors(const FieldErrors& errors, size_t most);

// Which of a kind's rules are judged.
enum class Scope {
  kAll,
  kSingleFields,  // bounds and forms of fields, each by itself: of an object that was read in part
};

// The line of `path` in `root`, or of the deepest part of it that was written.
int LineOf(const Node& root, std::string_view path);

// Fills the lines that are unknown from `root`.
void AddLines(const Node& root, FieldErrors& errors);

// One line per error: "service.yaml:7: spec.exchange.mode: message".
std::string FormatErrors(std::string_view file, const FieldErrors& errors);

}  // namespace janus::control
