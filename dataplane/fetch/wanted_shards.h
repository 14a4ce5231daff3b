#pragma once

#include <set>
#include <string>
#include <string_view>

#include "common/model/description.h"
#include "common/status.h"
#include "common/topology.h"

namespace janus::dataplane {

// What a pod needs of a model besides its small files.
enum class FetchFor {
  kAttention,  // the tensors of attention instances
  kExperts,    // those of expert instances, whatever the placement
  kAll,        // those of both
  kGateway,    // no weights
};

// The names of the files of weights that hold these tensors. `folder` has the checkpoint's small
// files; its weights need not be there. A tensor that no role reads, such as one of a layer behind
// the last or of a vision model, asks for no file. InvalidArgument: no index that names files, or
// none for this role; Unimplemented: no tensor names of the family. Reads one file.
Result<std::set<std::string>> WantedShards(const std::string& folder, const ModelDescription& model,
                                           FetchFor reader);

// The same from the text of an index. Pure.
Result<std::set<std::string>> ShardsInIndex(std::string_view json, const ModelDescription& model,
                                            FetchFor reader);

// Whether instances of the role read this tensor. Expert instances read routed experts, attention
// instances the rest. Both read gates, which lie beside tensors of attention. Pure.
bool IsReadBy(Role role, std::string_view tensor, const ModelDescription& model);

}  // namespace janus::dataplane
