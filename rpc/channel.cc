#include "rpc/channel.h"

namespace janus {

std::shared_ptr<grpc::Channel> DialInstance(
    const std::string& address, const std::shared_ptr<grpc::ChannelCredentials>& credentials,
    const PeerLost& lost) {
  constexpr int kMaxMessageBytes = 64 << 20;
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  // Time for one attempt. A TLS handshake takes time on both machines, which may be busy.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, credentials != nullptr ? 10'000 : 1'000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, static_cast<int>(lost.silence.count()));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, static_cast<int>(lost.answer.count()));
  // A stream may carry no request for hours; pings still detect a lost host.
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  return grpc::CreateCustomChannel(
      address, credentials != nullptr ? credentials : grpc::InsecureChannelCredentials(),
      arguments);
}

void AllowIdleCallers(grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             static_cast<int>(kPeerLostToWatch.silence.count() / 2));
}

bool IsPausing(grpc::Channel& channel) {
  return channel.GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_TRANSIENT_FAILURE;
}

}  // namespace janus
