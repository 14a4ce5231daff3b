#include "rpc/credentials/call_rules.h"

#include <algorithm>
#include <optional>
#include <string>

namespace janus {
namespace {

constexpr PeerRole kWriters[] = {PeerRole::kOperator, PeerRole::kAttention};
constexpr PeerRole kReaders[] = {PeerRole::kOperator, PeerRole::kGateway, PeerRole::kAttention,
                                 PeerRole::kExperts};
constexpr PeerRole kGateways[] = {PeerRole::kGateway};

constexpr CallRule kRules[] = {
    {"/janus.v1.Control/Prepare", kWriters},       {"/janus.v1.Control/Commit", kWriters},
    {"/janus.v1.Control/Abort", kWriters},         {"/janus.v1.Control/Drain", kWriters},
    {"/janus.v1.Control/Supersede", kWriters},     {"/janus.v1.Control/GetTopology", kReaders},
    {"/janus.v1.Control/WatchTopology", kReaders}, {"/janus.v1.Control/GetStatistics", kReaders},
    {"/janus.v1.Control/DescribeModel", kReaders}, {"/janus.v1.Tokens/Attach", kGateways},
};

class Gate final : public grpc::AuthMetadataProcessor {
 public:
  explicit Gate(RefusalCounts& refusals) : refusals_(refusals) {}

  bool IsBlocking() const override { return false; }

  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext* context, OutputMetadata*,
                       OutputMetadata*) override {
    const auto found = metadata.find(":path");
    const std::string_view path =
        found == metadata.end() ? std::string_view()
                                : std::string_view(found->second.data(), found->second.size());
    // The connection was accepted for this name.
    const std::vector<grpc::string_ref> names =
        context->FindPropertyValues(GRPC_PEER_SPIFFE_ID_PROPERTY_NAME);
    const std::string_view name =
        names.size() == 1 ? std::string_view(names[0].data(), names[0].size()) : std::string_view();
    const std::optional<Identity> caller = ParseIdentity(name);
    if (caller && MayCall(path, caller->role)) return grpc::Status::OK;
    refusals_.Count(Refusal::kRole);
    return {grpc::StatusCode::PERMISSION_DENIED,
            "'" + std::string(name) + "' may not call " + std::string(path)};
  }

 private:
  RefusalCounts& refusals_;
};

}  // namespace

std::span<const CallRule> CallRules() {
  return kRules;
}

bool MayCall(std::string_view path, PeerRole caller) {
  return std::any_of(std::begin(kRules), std::end(kRules), [&](const CallRule& rule) {
    return rule.path == path && std::count(rule.callers.begin(), rule.callers.end(), caller) > 0;
  });
}

std::shared_ptr<grpc::AuthMetadataProcessor> HoldToCallRules(RefusalCounts& refusals) {
  return std::make_shared<Gate>(refusals);
}

}  // namespace janus
