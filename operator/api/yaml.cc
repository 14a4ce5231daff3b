#include "operator/api/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>

#include "common/utf8.h"
#include "operator/api/yaml_scalar.h"

namespace janus::control {
namespace {

constexpr size_t kMaxBytes = 1 << 20;
constexpr size_t kMaxNameBytes = 512;
constexpr int kMaxDepth = 64;
constexpr int kMaxValues = 100'000;

class Converter {
 public:
  // `before`: number of lines of the file before the text.
  explicit Converter(std::string_view file, int before = 0) : file_(file), before_(before) {}

  Result<Node> Convert(const YAML::Node& from, int depth) {
    const int line = LineOf(from);
    if (depth > kMaxDepth) return Fail(line, "nested deeper than 64 levels");
    if (++values_ > kMaxValues) return Fail(line, "more than 100,000 values");
    switch (from.Type()) {
      case YAML::NodeType::Undefined:
      case YAML::NodeType::Null: {
        Node node;
        node.line = std::max(line, 0);  // a field without a value has no position
        return node;
      }
      case YAML::NodeType::Scalar:
        return Scalar(from, line);
      case YAML::NodeType::Sequence:
        return List(from, line, depth);
      case YAML::NodeType::Map:
        return Map(from, line, depth);
    }
    return Fail(line, "unknown kind of value");
  }

  // Line in the file for a line of the text; both 1-based. 0: unknown.
  int LineInFile(int line) const { return line > 0 ? before_ + line : 0; }

  // `line`: in the file.
  Status Fail(int line, std::string_view message) const {
    std::string out(file_);
    if (line > 0) out += ":" + std::to_string(line);
    return InvalidArgument(out + ": " + std::string(message));
  }

 private:
  int LineOf(const YAML::Node& node) const { return LineInFile(node.Mark().line + 1); }

  Result<Node> Scalar(const YAML::Node& from, int line) const {
    const std::string& text = from.Scalar();
    Node node = Node::String(text);
    node.line = line;
    if (from.Tag() == "!" || from.Tag() == "tag:yaml.org,2002:str") return node;  // quoted
    if (!from.Tag().empty() && from.Tag() != "?") {
      return Fail(line, "the tag " + from.Tag().substr(0, 64) + " is not read; leave it out");
    }
    Result<Node> read = ReadPlain(text);
    if (!read.ok()) return Fail(line, read.status().message());
    read->line = line;
    if (read->kind == Node::Kind::kBool) read->text = text;  // messages quote the word
    return read;
  }

  Result<Node> List(const YAML::Node& from, int line, int depth) {
    Node node = Node::List();
    node.line = line;
    for (const YAML::Node& item : from) {
      JANUS_ASSIGN_OR_RETURN(Node value, Convert(item, depth + 1));
      node.items.push_back(std::move(value));
    }
    return node;
  }

  Result<Node> Map(const YAML::Node& from, int line, int depth) {
    Node node = Node::Map();
    node.line = line;
    for (const auto& field : from) {
      const int key_line = LineOf(field.first);
      if (!field.first.IsScalar()) return Fail(key_line, "a field's name must be a plain string");
      const std::string& name = field.first.Scalar();
      if (field.first.Tag() != "!") {
        const Result<Node> read = ReadPlain(name);
        if (!read.ok()) return Fail(key_line, "a field's name: " + read.status().message());
        if (read->text != name) {
          return Fail(key_line, "a field's name: kubectl reads " + name.substr(0, 64) + " as " +
                                    read->text + "; put it in quotes");
        }
      }
      // The limit is longer than any field or label name; YAML ends a plain key at 1,024
      // characters.
      if (name.size() > kMaxNameBytes) {
        return Fail(key_line, "a field's name of " + std::to_string(name.size()) +
                                  " bytes; is a line break or a quote missing?");
      }
      // yaml-cpp keeps both of two equal keys; readers differ in which one wins.
      if (node.Find(name) != nullptr) return Fail(key_line, "field '" + name + "' is given twice");
      JANUS_ASSIGN_OR_RETURN(Node value, Convert(field.second, depth + 1));
      // A nested block starts a line after its name, but people look at the name.
      value.line = key_line;
      node.Add(name, std::move(value));
    }
    return node;
  }

  std::string_view file_;
  int before_;
  int values_ = 0;
};

// Finds the line where a document's content starts.
class FirstLine final : public YAML::EventHandler {
 public:
  int line() const { return line_; }  // 0: no content

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { See(mark); }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                const std::string&) override {
    See(mark);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    See(mark);
  }
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    See(mark);
  }
  void OnMapEnd() override {}

 private:
  void See(const YAML::Mark& mark) {
    if (line_ == 0) line_ = mark.line + 1;
  }
  int line_ = 0;
};

void Emit(const Node& node, YAML::Emitter& out) {
  switch (node.kind) {
    case Node::Kind::kNull:
      out << YAML::Null;
      return;
    case Node::Kind::kBool:
      out << (node.boolean ? "true" : "false");
      return;
    case Node::Kind::kInteger:
      out << node.integer;
      return;
    case Node::Kind::kFloat:
      out << node.text;
      return;
    case Node::Kind::kString:
      if (NeedsQuotes(node.text)) out << YAML::DoubleQuoted;
      out << node.text;
      return;
    case Node::Kind::kList:
      if (node.items.empty()) out << YAML::Flow;
      out << YAML::BeginSeq;
      for (const Node& item : node.items) Emit(item, out);
      out << YAML::EndSeq;
      return;
    case Node::Kind::kMap:
      if (node.fields.empty()) out << YAML::Flow;
      out << YAML::BeginMap;
      for (const auto& [name, value] : node.fields) {
        out << YAML::Key;
        if (NeedsQuotes(name)) out << YAML::DoubleQuoted;
        out << name << YAML::Value;
        Emit(value, out);
      }
      out << YAML::EndMap;
      return;
  }
}

}  // namespace

namespace {

int CountLines(std::string_view text) {
  return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

// Refuses text that is not valid UTF-8 or has NUL bytes, whatever its content.
Status CheckText(std::string_view text, const Converter& converter) {
  const auto line_of = [&](size_t at) { return CountLines(text.substr(0, at)) + 1; };
  if (text.size() > kMaxBytes)
    return converter.Fail(0, "larger than 1 MiB; is this the right file?");
  if (const size_t broken = FindBrokenUtf8(text); broken != std::string_view::npos)
    return converter.Fail(line_of(broken), "not UTF-8");
  // The library takes text with NUL bytes for UTF-16 or UTF-32.
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos)
    return converter.Fail(line_of(zero), "holds a NUL byte; want UTF-8 text");
  return OkStatus();
}

// Nothing if the text has only comments. REQUIRES: CheckText passed.
Result<std::optional<Node>> ParseDocument(std::string_view text, Converter& converter) {
  try {
    const YAML::Node document = YAML::Load(std::string(text));
    if (!document.IsDefined() || document.IsNull()) return std::optional<Node>();
    // Not YAML::LoadAll: on a document that begins with a comma it returns empty documents forever.
    std::istringstream in{std::string(text)};
    YAML::Parser parser(in);
    FirstLine line;
    parser.HandleNextDocument(line);
    line = FirstLine();
    if (parser.HandleNextDocument(line) && line.line() > 0) {
      return converter.Fail(converter.LineInFile(line.line()),
                            "holds more than one document; give each object its own file");
    }
    JANUS_ASSIGN_OR_RETURN(Node out, converter.Convert(document, 0));
    return std::optional<Node>(std::move(out));
  } catch (const YAML::Exception& error) {
    return converter.Fail(converter.LineInFile(error.mark.line + 1),
                          "not valid YAML: " + error.msg);
  }
}

// True for "---", perhaps followed by a comment, as in kubectl.
bool IsSeparator(std::string_view line) {
  if (!line.starts_with("---")) return false;
  const size_t more = line.find_first_not_of(" \t\r", 3);
  return more == std::string_view::npos || line[more] == '#';
}

}  // namespace

Result<Node> ParseYaml(std::string_view text, std::string_view file) {
  Converter converter(file);
  JANUS_RETURN_IF_ERROR(CheckText(text, converter));
  JANUS_ASSIGN_OR_RETURN(std::optional<Node> out, ParseDocument(text, converter));
  if (!out) return converter.Fail(0, "is empty; want one MoEService object");
  return *std::move(out);
}

Result<std::vector<YamlDocument>> ParseYamlDocuments(std::string_view text, std::string_view file) {
  JANUS_RETURN_IF_ERROR(CheckText(text, Converter(file)));
  std::vector<YamlDocument> out;
  size_t begin = 0;      // where the document starts
  int lines_before = 0;  // lines before it
  const auto take = [&](size_t end) {
    Converter converter(file, lines_before);
    Result<std::optional<Node>> one = ParseDocument(text.substr(begin, end - begin), converter);
    if (!one.ok()) {
      out.push_back({lines_before + 1, one.status()});
    } else if (*one) {
      const int line = (*one)->line;
      out.push_back({line, **std::move(one)});
    }
  };
  int line = 0;
  for (size_t at = 0; at < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (IsSeparator(text.substr(at, end - at))) {
      take(at);
      begin = std::min(end + 1, text.size());
      lines_before = line + 1;
    }
    at = end + 1;
  }
  take(text.size());
  return out;
}

std::string WriteYaml(const Node& root) {
  YAML::Emitter out;
  Emit(root, out);
  return std::string(out.c_str(), out.size()) + "\n";
}

}  // namespace janus::control
