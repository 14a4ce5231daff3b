#pragma once

#include <memory>
#include <string>

#include "common/log.h"
#include "dataplane/worker/worker.h"
#include "proto/tokens.grpc.pb.h"

namespace janus::dataplane {

// A Submit as the engine's request; InvalidArgument names the field. `stream` is the connection's;
// prompt and answer are at most `max_model_len` tokens.
Result<Request> ToRequest(const v1::Submit& submit, uint64_t stream, int64_t max_model_len);

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
