#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "dataplane/gateway/http_server.h"
#include "dataplane/gateway/service.h"

namespace janus::gateway {

struct GatewayOptions {
  HttpOptions http;
  ServiceOptions service;
  std::string model_dir;
  std::string model_name;  // as clients name it; default: the folder's name
  std::vector<std::string> model_aliases;
  UnknownParameters unknown_parameters = UnknownParameters::kRefuse;
  std::optional<ToolFormat> tool_format;  // absent: detected from the chat template
  std::optional<bool> reads_reasoning;    // absent: likewise detected
  std::string chat_template_file;
  std::vector<std::string> members;  // gRPC addresses; kPoolMark stands for the pool's number
  int pools = 1;                     // to look for
  Seconds forget_pool{30};           // TopologyWatchOptions::forgotten_after, with several pools
  std::string service_uid;
  std::string trust;  // folder of certificates; empty: plain text
  std::string api_keys_file;
  int64_t memory_bytes = 0;  // of the memory budget; 0: DefaultMemoryBytes
  bool debug_logits_hash = false;
  int64_t queued_requests = 4096;
  int tokenizer_threads = 2;
  Seconds lame_duck{0};  // Departure
  Seconds drain_deadline{30};
  Seconds hold{60};  // AttentionPoolOptions
  bool help = false;
};

// Flags as --name VALUE or --name=VALUE. InvalidArgument names the flag and the expected value.
Result<GatewayOptions> ParseGatewayOptions(std::span<const std::string_view> args);
std::string GatewayHelp();

// The default memory budget: a quarter of the available memory, at least 64 MiB and at most 1 GiB,
// but always room for four bodies of the largest size.
int64_t DefaultMemoryBytes(int64_t available_bytes, size_t max_body_bytes);
// InvalidArgument: a request of the largest size could never be admitted.
Status CheckMemoryBytes(int64_t memory_bytes, size_t max_body_bytes);

// One key per line; empty lines and lines beginning with # are skipped.
Result<std::vector<std::string>> ReadApiKeys(const std::string& path);

}  // namespace janus::gateway
