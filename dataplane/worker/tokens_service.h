#pragma once

#include <memory>
#include <string>

#include "common/log.h"
#include "dataplane/worker/worker.h"
#include "proto/tokens.grpc.pb.h"

namespace janus::dataplane {

// janus.v1.Tokens over the worker's attention instance: one reactor per attached gateway.
class TokensService final : public v1::Tokens::CallbackService {
 public:
  TokensService(Worker& worker, Logger log) : worker_(worker), log_(log) {}

  grpc::ServerBidiReactor<v1::ToAttention, v1::FromAttention>* Attach(
      grpc::CallbackServerContext* context) override;

 private:
  Worker& worker_;
  const Logger log_;
};

}  // namespace janus::dataplane
