#include "cli/place/routing_file.h"

#include <algorithm>
#include <charconv>

#include "cli/csv.h"

namespace janus::cli {
namespace {

using controllers::RoutingLayer;

constexpr int kMaxLayers = 1024;

// Appends the ids of a field such as "8 26 56". False: the field is malformed.
bool AppendIds(std::string_view field, std::vector<uint16_t>& ids) {
  const char* at = field.data();
  const char* const end = field.data() + field.size();
  while (at != end) {
    uint16_t id = 0;
    const auto [stop, problem] = std::from_chars(at, end, id);
    if (problem != std::errc()) return false;
    ids.push_back(id);
    at = stop;
    if (at != end && *at++ != ' ') return false;
  }
  return true;
}

// Layer names for a message, at most kMost of them.
std::string Join(const std::vector<std::string>& names) {
  constexpr size_t kMost = 8;
  std::string all;
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i) all += (i > 0 ? ", " : "") + names[i];
  return names.size() > kMost ? all + ", ... (" + std::to_string(names.size()) + ")" : all;
}

// `names`: the layers read so far, empty before the first file.
Status ReadFile(const std::string& path, std::vector<RoutingLayer>& layers,
                std::vector<std::string>& names) {
  JANUS_ASSIGN_OR_RETURN(const std::string text, ReadPossiblyGzip(path));
  CsvReader csv(text);
  std::vector<std::pair<std::string, int>> columns;
  for (int i = 0; i < kMaxLayers; ++i) {
    const std::string name = "layer" + std::to_string(i);
    if (const int column = csv.FindColumn({name}); column >= 0) columns.emplace_back(name, column);
  }
  if (columns.empty()) {
    return InvalidArgument(path + ": line 1: want columns layer<number>; is '" +
                           std::string(csv.header().substr(0, 80)) + "'");
  }
  std::vector<std::string> here;
  for (const auto& [name, column] : columns) here.push_back(name);
  if (layers.empty()) {
    layers.resize(columns.size());
    names = here;
  }
  if (names != here) {
    return InvalidArgument(path + ": has the layers " + Join(here) +
                           ", but the files before it have " + Join(names) +
                           "; all files of a folder must have the same layers");
  }
  while (csv.Next()) {
    for (size_t l = 0; l < columns.size(); ++l) {
      RoutingLayer& layer = layers[l];
      const size_t before = layer.ids.size();
      const bool is_read = AppendIds(csv.Text(columns[l].second), layer.ids);
      const int got = static_cast<int>(layer.ids.size() - before);
      if (layer.top_k == 0) layer.top_k = got;
      if (is_read && got > 0 && got == layer.top_k) continue;
      // The first row sets how many ids a token has.
      const std::string many = before > 0 ? std::to_string(layer.top_k) + " " : "";
      return InvalidArgument(path + ": line " + std::to_string(csv.line()) + ": column " +
                             columns[l].first + " is '" +
                             std::string(csv.Text(columns[l].second).substr(0, 40)) + "'; want " +
                             many + "expert ids from 0 to 65535, separated by spaces");
    }
  }
  return OkStatus();
}

}  // namespace

Result<std::vector<RoutingLayer>> ReadRouting(const std::string& path, int experts) {
  JANUS_ASSIGN_OR_RETURN(const std::vector<std::string> files, CsvFilesAt(path));
  std::vector<RoutingLayer> layers;
  std::vector<std::string> names;
  for (const std::string& file : files) JANUS_RETURN_IF_ERROR(ReadFile(file, layers, names));
  int highest = 0;
  for (const RoutingLayer& layer : layers) {
    for (const uint16_t id : layer.ids) highest = std::max<int>(highest, id);
  }
  for (size_t l = 0; l < layers.size(); ++l) {
    layers[l].experts = experts > 0 ? experts : highest + 1;
    const Status valid = Validate(layers[l]);
    if (!valid.ok()) return valid.Annotate(path + ": layer " + std::to_string(l));
  }
  return layers;
}

}  // namespace janus::cli
