#include "dataplane/gateway/api/structured.h"

#include <string>
#include <utility>

namespace janus::gateway {

namespace {

using Kind = StructuredAnswer::Kind;

constexpr size_t kMostAlternatives = 1024;

// One constraint: only the first is taken, and a second is refused by name.
class Reader {
 public:
  explicit Reader(StructuredAnswer* out) : out_(out) {}

  void Json(const std::string& param, const gateway::Json& schema) {
    gateway::Json parsed = schema;
    // vLLM takes the schema as text too.
    if (schema.is_string()) {
      parsed = gateway::Json::parse(schema.get<std::string>(), nullptr, false);
    }
    if (!parsed.is_object() && !parsed.is_boolean()) Refuse(param, "a JSON schema", schema);
    Set(Kind::kJsonSchema, param, parsed.dump());
  }
  void Object(const std::string& param) { Set(Kind::kJsonSchema, param, R"({"type":"object"})"); }
  void Text(Kind kind, const std::string& param, const gateway::Json& value) {
    if (!value.is_string() || value.get<std::string>().empty()) {
      Refuse(param, "a string, not empty", value);
    }
    Set(kind, param, value.get<std::string>());
  }
  void Choice(const std::string& param, const gateway::Json& list) {
    constexpr std::string_view kWanted = "a list of 1 to 1024 strings";
    if (!list.is_array() || list.empty() || list.size() > kMostAlternatives) {
      Refuse(param, kWanted, list);
    }
    for (const gateway::Json& one : list) {
      if (!one.is_string()) Refuse(param, kWanted, list);
    }
    Set(Kind::kChoice, param, list.dump());
  }

 private:
  void Set(Kind kind, const std::string& param, std::string text) {
    if (out_->kind != Kind::kNone) {
      throw Refused{InvalidParameter(
          param, "'" + param + "' and '" + out_->param + "' both say what the answer looks like")};
    }
    *out_ = {.kind = kind, .text = std::move(text), .param = param};
  }

  StructuredAnswer* const out_;
};

void ReadResponseFormat(const Json& format, Reader* reader) {
  const std::string param = "response_format";
  const std::string wanted = "an object whose type is 'text', 'json_object' or 'json_schema'";
  if (!format.is_object()) Refuse(param, wanted, format);
  const Json type = format.value("type", Json());
  if (type == "text") return;
  if (type == "json_object") return reader->Object(param);
  if (type != "json_schema") Refuse(param, wanted, format);
  const auto outer = format.find("json_schema");
  if (outer == format.end() || !outer->is_object() || !outer->contains("schema")) {
    Refuse(param + ".json_schema", "an object with a schema",
           outer == format.end() ? Json() : *outer);
  }
  reader->Json(param + ".json_schema.schema", outer->at("schema"));
}

void ReadStructuredOutputs(const Json& outputs, Reader* reader) {
  const std::string param = "structured_outputs";
  if (!outputs.is_object()) Refuse(param, "an object", outputs);
  for (const auto& [name, value] : outputs.items()) {
    if (value.is_null()) continue;
    const std::string field = param + "." + name;
    if (name == "json") {
      reader->Json(field, value);
    } else if (name == "json_object") {
      if (!value.is_boolean()) Refuse(field, "true or false", value);
      if (value == true) reader->Object(field);
    } else if (name == "regex") {
      reader->Text(Kind::kRegex, field, value);
    } else if (name == "grammar") {
      reader->Text(Kind::kGrammar, field, value);
    } else if (name == "choice") {
      reader->Choice(field, value);
    } else if (value != false) {  // vLLM's switches of its backends
      throw Refused{UnsupportedParameter(
          field,
          "'" + field + "' is not supported; give json, json_object, regex, choice or grammar")};
    }
  }
}

}  // namespace

void ReadStructured(Fields& fields, CompletionRequest* request) {
  Reader reader(&request->structured);
  if (const Json* format = fields.Find("response_format")) ReadResponseFormat(*format, &reader);
  if (const Json* outputs = fields.Find("structured_outputs")) {
    ReadStructuredOutputs(*outputs, &reader);
  }
  if (const Json* schema = fields.Find("guided_json")) reader.Json("guided_json", *schema);
  if (const Json* regex = fields.Find("guided_regex")) {
    reader.Text(Kind::kRegex, "guided_regex", *regex);
  }
  if (const Json* choice = fields.Find("guided_choice")) reader.Choice("guided_choice", *choice);
  if (const Json* grammar = fields.Find("guided_grammar")) {
    reader.Text(Kind::kGrammar, "guided_grammar", *grammar);
  }
}

}  // namespace janus::gateway
