#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "common/timed_device.h"
#include "operator/api/moeservice.h"

namespace janus::cli {

// Reads from YAML a MoEService that this version can serve on this machine. InvalidArgument lists
// every error with file, line and path: syntax, fields, rules, unsupported features.
Result<control::MoEService> ParseServiceText(std::string_view text, const std::string& file);

// The same from a file. NotFound: the file cannot be read.
Result<control::MoEService> ReadServiceFile(const std::string& file);

// Reads a whole file or pipe, at most 1 MiB.
Result<std::string> ReadTextFile(const std::string& path);

// Values for the YAML of `janusctl serve --model DIR`: a service with a HostPath source.
struct ServiceAsked {
  std::string name;
  std::string model_name;  // what clients call the model; empty: the service's name
  std::string model_dir;
  std::optional<int> attention = 1;  // nothing: as many as the target needs
  std::optional<int> experts = 1;
  std::optional<TimedDevice> timed = {};
  std::optional<int> tpot_milliseconds = {};
  int micro_batches = 0;           // 0: chosen
  std::string exchange_mode = {};  // empty: chosen
  std::string compression = {};    // empty: none
  std::string gate = {};           // the role that computes it; empty: chosen
  std::string transport = {};      // empty: chosen
  std::string sum = {};            // empty: chosen
  int sum_bits = 32;               // with FixedPoint
  std::vector<int> sum_exponents = {};
  std::optional<int> pools = {};  // nothing: the service uses no pools
  int gpus = 0;                   // of this machine, to compute on; 0: CPUs
};
std::string ComposeServiceText(const ServiceAsked& asked);

// The object with this timed device in place of its own device. InvalidArgument: no YAML.
Result<std::string> WithTimedDevice(const std::string& text, const std::string& file,
                                    const TimedDevice& device);

// The object with a HostPath source of this folder in place of its own source.
// InvalidArgument: no YAML.
Result<std::string> WithModelFolder(const std::string& text, const std::string& file,
                                    const std::string& folder);

// Whether a service may have this name. InvalidArgument names the flag --name.
Status CheckServiceName(const std::string& name);

// A service name made from a model folder: its last part, with '-' for characters that a name must
// not have.
std::string ServiceNameFor(const std::string& model_dir);

// The last part of the folder, unchanged: the name by which clients know the model.
std::string ModelNameFor(const std::string& model_dir);

}  // namespace janus::cli
