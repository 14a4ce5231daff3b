#include "dataplane/gateway/api/tools.h"

#include <algorithm>

namespace janus::gateway {

namespace {

constexpr size_t kMostTools = 128;

// {"type": "function", "function": {"name", "description", "parameters"}}
void CheckTool(const Json& tool, const std::string& param) {
  const std::string wanted = "an object with type 'function' and a function";
  if (!tool.is_object() || tool.value("type", Json()) != "function") Refuse(param, wanted, tool);
  const auto function = tool.find("function");
  if (function == tool.end() || !function->is_object()) Refuse(param, wanted, tool);
  const auto name = function->find("name");
  if (name == function->end() || !name->is_string() || name->get<std::string>().empty()) {
    Refuse(param + ".function.name", "a string, not empty",
           name == function->end() ? Json() : *name);
  }
  const auto parameters = function->find("parameters");
  if (parameters != function->end() && !parameters->is_null() && !parameters->is_object()) {
    Refuse(param + ".function.parameters", "a JSON schema (an object)", *parameters);
  }
}

// "none", "auto", "required" or {"type": "function", "function": {"name"}}. `tools` may be null.
void ReadChoice(const Json& choice, const Json* tools, CompletionRequest* request) {
  const std::string wanted =
      "'none', 'auto', 'required' or {\"type\": \"function\", \"function\": {\"name\": ...}}";
  if (choice == "auto") return;
  if (choice == "none") {
    request->reads_tool_calls = false;
    return;
  }
  if (choice != "required") {
    const Json function = choice.is_object() ? choice.value("function", Json()) : Json();
    const Json name = function.is_object() ? function.value("name", Json()) : Json();
    if (!name.is_string() || choice.value("type", Json("function")) != "function") {
      Refuse("tool_choice", wanted, choice);
    }
    request->called_tool = name.get<std::string>();
  }
  if (!request->reads_tool_calls) {
    throw Refused{
        InvalidParameter("tool_choice", "'tool_choice' asks for a call, without 'tools'")};
  }
  const bool is_known =
      request->called_tool.empty() || std::ranges::any_of(*tools, [&](const Json& tool) {
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
  const Json* tools = fields.Find("tools");
  if (tools != nullptr && (!tools->is_array() || tools->size() > kMostTools)) {
    Refuse("tools", "a list of at most 128 tools", *tools);
  }
  const bool has_tools = tools != nullptr && !tools->empty();
  for (size_t i = 0; has_tools && i < tools->size(); ++i) {
    CheckTool((*tools)[i], "tools[" + std::to_string(i) + "]");
  }
  request->parallel_tool_calls = fields.Bool("parallel_tool_calls").value_or(true);
  if (has_tools) request->tools_json = tools->dump();
  request->reads_tool_calls = has_tools;
  if (const Json* choice = fields.Find("tool_choice")) ReadChoice(*choice, tools, request);
}

}  // namespace janus::gateway
