#include "dataplane/gateway/api/tools.h"

#include <algorithm>

namespace janus::gateway {

namespace {

constexpr size_t kMostTools = 128;

Json FieldOf(const Json& object, std::string_view name) {
  const auto found = object.find(name);
  return found == object.end() ? Json() : *found;
}

void CheckFunction(const Json& function, const std::string& param, const std::string& schema) {
  const Json name = FieldOf(function, "name");
  if (!name.is_string() || name.get<std::string>().empty()) {
    Refuse(param + ".name", "a string, not empty", name);
  }
  const Json parameters = FieldOf(function, schema);
  if (!parameters.is_null() && !parameters.is_object()) {
    Refuse(param + "." + schema, "a JSON schema (an object)", parameters);
  }
}

// {"type": "function", "function": {"name", "description", "parameters"}}
Json ChatTool(const Json& tool, const std::string& param) {
  const std::string wanted = "an object with type 'function' and a function";
  if (!tool.is_object() || FieldOf(tool, "type") != "function") Refuse(param, wanted, tool);
  const Json function = FieldOf(tool, "function");
  if (!function.is_object()) Refuse(param, wanted, tool);
  CheckFunction(function, param + ".function", "parameters");
  return tool;
}

// {"type", "name", "description", `schema`}: a function has the type `function`, other types name
// tools that the API's owner runs. `may_lack_type`: a function may have none.
Json FlatTool(const Json& tool, const std::string& param, const std::string& function,
              bool may_lack_type, const std::string& schema) {
  if (!tool.is_object()) Refuse(param, "an object with a name", tool);
  const Json type = FieldOf(tool, "type");
  if (type != function && !(may_lack_type && type.is_null())) {
    const std::string shown = type.is_string() ? type.get<std::string>() : type.dump();
    throw Refused{UnsupportedParameter(
        param + ".type", "tools of type '" + shown + "' are not supported: this gateway runs no " +
                             "tools; send functions (type '" + function + "')")};
  }
  CheckFunction(tool, param, schema);
  Json out = {{"name", tool["name"]}};
  if (const Json description = FieldOf(tool, "description"); description.is_string()) {
    out["description"] = description;
  }
  if (const Json parameters = FieldOf(tool, schema); !parameters.is_null()) {
    out["parameters"] = parameters;
  }
  return {{"type", "function"}, {"function", std::move(out)}};
}

Json ToolOf(Endpoint endpoint, const Json& tool, const std::string& param) {
  switch (endpoint) {
    case Endpoint::kMessages:
      return FlatTool(tool, param, "custom", /*may_lack_type=*/true, "input_schema");
    case Endpoint::kResponses:
      return FlatTool(tool, param, "function", /*may_lack_type=*/false, "parameters");
    default:
      return ChatTool(tool, param);
  }
}

enum class Choice : uint8_t { kAuto, kNone, kAny, kNamed };

// "none", "auto", "required" or an object with the function's name.
Choice ReadOpenAiChoice(const Json& choice, CompletionRequest* request) {
  if (choice == "auto") return Choice::kAuto;
  if (choice == "none") return Choice::kNone;
  if (choice == "required") return Choice::kAny;
  const bool is_flat = request->endpoint == Endpoint::kResponses;
  Json name;
  if (choice.is_object() && choice.value("type", Json("function")) == "function") {
    const Json function = is_flat ? choice : FieldOf(choice, "function");
    if (function.is_object()) name = FieldOf(function, "name");
  }
  if (!name.is_string()) {
    Refuse("tool_choice",
           is_flat ? "'none', 'auto', 'required' or {\"type\": \"function\", \"name\": ...}"
                   : "'none', 'auto', 'required' or {\"type\": \"function\", \"function\": "
                     "{\"name\": ...}}",
           choice);
  }
  request->called_tool = name.get<std::string>();
  return Choice::kNamed;
}

// {"type": "auto", "any", "none" or "tool", "name", "disable_parallel_tool_use"}
Choice ReadMessagesChoice(const Json& choice, CompletionRequest* request) {
  const std::string wanted = "an object whose type is 'auto', 'any', 'tool' or 'none'";
  if (!choice.is_object()) Refuse("tool_choice", wanted, choice);
  const Json one = FieldOf(choice, "disable_parallel_tool_use");
  if (!one.is_null() && !one.is_boolean()) {
    Refuse("tool_choice.disable_parallel_tool_use", "true or false", one);
  }
  request->parallel_tool_calls = one != true;
  const Json type = FieldOf(choice, "type");
  if (type == "auto") return Choice::kAuto;
  if (type == "none") return Choice::kNone;
  if (type == "any") return Choice::kAny;
  if (type != "tool") Refuse("tool_choice", wanted, choice);
  const Json name = FieldOf(choice, "name");
  if (!name.is_string()) Refuse("tool_choice.name", "a string", name);
  request->called_tool = name.get<std::string>();
  return Choice::kNamed;
}

void Apply(Choice choice, const Json& tools, CompletionRequest* request) {
  if (choice == Choice::kAuto) return;
  if (choice == Choice::kNone) {
    request->reads_tool_calls = false;
    return;
  }
  if (!request->reads_tool_calls) {
    throw Refused{
        InvalidParameter("tool_choice", "'tool_choice' asks for a call, without 'tools'")};
  }
  const bool is_known = choice == Choice::kAny || std::ranges::any_of(tools, [&](const Json& tool) {
                          return tool["function"]["name"] == request->called_tool;
                        });
  if (!is_known) {
    throw Refused{
        InvalidParameter("tool_choice", "'tools' has no function '" + request->called_tool + "'")};
  }
  request->must_call = true;
}

}  // namespace

void ReadTools(Fields& fields, CompletionRequest* request) {
  const Json* given = fields.Find("tools");
  if (given != nullptr && (!given->is_array() || given->size() > kMostTools)) {
    Refuse("tools", "a list of at most 128 tools", *given);
  }
  Json tools = Json::array();
  for (size_t i = 0; given != nullptr && i < given->size(); ++i) {
    tools.push_back(ToolOf(request->endpoint, (*given)[i], "tools[" + std::to_string(i) + "]"));
  }
  request->reads_tool_calls = !tools.empty();
  if (!tools.empty()) request->tools_json = tools.dump();
  if (request->endpoint != Endpoint::kMessages) {
    request->parallel_tool_calls = fields.Bool("parallel_tool_calls").value_or(true);
  }
  if (const Json* choice = fields.Find("tool_choice")) {
    Apply(request->endpoint == Endpoint::kMessages ? ReadMessagesChoice(*choice, request)
                                                   : ReadOpenAiChoice(*choice, request),
          tools, request);
  }
}

}  // namespace janus::gateway
