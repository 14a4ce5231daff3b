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
  const Json* choice = fields.Find("tool_choice");
  const bool is_none = choice != nullptr && *choice == "none";
  if (choice != nullptr && !is_none && *choice != "auto") {
    throw Refused{UnsupportedParameter(
        "tool_choice", "only 'auto' and 'none' are supported: a call cannot be forced yet")};
  }
  if (has_tools) request->tools_json = tools->dump();
  request->reads_tool_calls = has_tools && !is_none;
}

}  // namespace janus::gateway
