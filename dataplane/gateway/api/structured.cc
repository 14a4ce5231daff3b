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

// {"type": "text", "json_object" or "json_schema", "schema"}
void ReadFlatFormat(const Json& format, const std::string& param, Reader* reader) {
  const std::string wanted = "an object whose type is 'text', 'json_object' or 'json_schema'";
  if (!format.is_object()) Refuse(param, wanted, format);
  const Json type = format.value("type", Json());
  if (type == "text") return;
  if (type == "json_object") return reader->Object(param);
  if (type != "json_schema") Refuse(param, wanted, format);
  reader->Json(param + ".schema", format.value("schema", Json()));
}

// `text` of /v1/responses: {"format", "verbosity"}
void ReadText(const Json& text, Reader* reader) {
  if (!text.is_object()) Refuse("text", "an object", text);
  for (const auto& [name, value] : text.items()) {
    if (value.is_null()) continue;
    if (name == "format") {
      ReadFlatFormat(value, "text.format", reader);
    } else if (name != "verbosity" || value != "medium") {
      throw Refused{UnsupportedParameter("text." + name,
                                         "'text." + name + "' is not supported; leave it out")};
    }
  }
}

// `output_config` of /v1/messages: {"format", "effort"}
void ReadOutputConfig(const Json& config, CompletionRequest* request, Reader* reader) {
  if (!config.is_object()) Refuse("output_config", "an object", config);
  for (const auto& [name, value] : config.items()) {
    const std::string param = "output_config." + name;
    if (value.is_null()) continue;
    if (name == "format") {
      ReadFlatFormat(value, param, reader);
    } else if (name == "effort") {
      if (!value.is_string()) Refuse(param, "a string", value);
      request->reasoning_effort = value.get<std::string>();
      request->is_effort_a_hint = true;
    } else {
      throw Refused{UnsupportedParameter(param, "'" + param + "' is not supported; leave it out")};
    }
  }
}

void ReadFormat(Fields& fields, CompletionRequest* request, Reader* reader) {
  switch (request->endpoint) {
    case Endpoint::kMessages:
      if (const Json* config = fields.Find("output_config")) {
        ReadOutputConfig(*config, request, reader);
      }
      return;
    case Endpoint::kResponses:
      if (const Json* text = fields.Find("text")) ReadText(*text, reader);
      return;
    default:
      if (const Json* format = fields.Find("response_format")) ReadResponseFormat(*format, reader);
  }
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
  ReadFormat(fields, request, &reader);
  request->structured.is_format = request->structured.kind != Kind::kNone;
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
