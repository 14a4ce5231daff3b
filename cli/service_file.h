#pragma once

#include <string>

#include "common/status.h"
#include "operator/api/moeservice.h"

namespace janus::cli {

// A MoEService that this version can serve on this machine, from YAML text. InvalidArgument lists
// every error by file, line and path: syntax, fields, rules, what is not supported.
Result<control::MoEService> ParseServiceText(std::string_view text, const std::string& file);

// The same from a file. NotFound: it cannot be read.
Result<control::MoEService> ReadServiceFile(const std::string& file);

// A whole file or pipe; at most 1 MiB.
Result<std::string> ReadTextFile(const std::string& path);

// The object of `janusctl serve --model DIR`, as YAML: a HostPath source and fixed counts.
struct ServiceAsked {
  std::string name;
  std::string model_name;  // what clients call the model; empty: the service's name
  std::string model_dir;
  int attention = 1;
  int experts = 1;
};
std::string ComposeServiceText(const ServiceAsked& asked);

// Whether a service may be called so; InvalidArgument says it of --name.
Status CheckServiceName(const std::string& name);

// A name for the service of a model folder: its last part, with what a name may not have turned
// into '-'.
std::string ServiceNameFor(const std::string& model_dir);

// Its last part as it is: the name that clients expect of the model in it.
std::string ModelNameFor(const std::string& model_dir);

}  // namespace janus::cli
