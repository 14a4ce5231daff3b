#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/serve.h"
#include "common/status.h"
#include "hub/names.h"
#include "operator/api/moeservice.h"
#include "operator/local/gpus.h"

namespace janus::cli {

// What the options of `janusctl serve` ask for, before a model of a hub has a folder.
struct Asked {
  std::vector<control::LocalGpu> gpus;  // that the service may use
  std::string text;                     // of the file, with -f
  std::optional<hub::ModelId> hub;      // the model, if it is one of a hub
};

// Reads the file of -f once, or looks whether --model is a folder: a folder goes before a model of
// a hub with the same name. InvalidArgument, as ParseServiceText has it, or a name that no hub has.
Result<Asked> ReadAsked(const ServeOptions& options);

// A MoEService with a HostPath source.
struct Object {
  control::MoEService service;
  std::string text;  // YAML
};

// The object to serve. `folder`: where the model of a hub lies; unused for other models.
Result<Object> MakeObject(const ServeOptions& options, const Asked& asked,
                          const std::string& folder);

}  // namespace janus::cli
