#pragma once

#include <string>

#include "operator/kube/client.h"
#include "operator/kube/informer.h"

// The commands of kube-bench, which bench/informer.py runs.
namespace janus::bench {

// Creates `count` pods with the size of a worker in $JANUS_NAMESPACE, on the nodes fake-0 to
// fake-99.
void Fill(int count);
// Deletes every `step`-th pod.
void Thin(int count, int step);
// Writes the events of these pods to `file`, one per line, until `count` pods were seen Running and
// `deletes` deleted.
void Record(const std::string& file, int count, int deletes);
// Changes a label of the pods that Thin left, one after the other, `writes` times in all, as fast
// as the server allows. Writes to `log` the version after each change and the time of the server's
// answer. Prints a JSON line with the speed.
void Churn(int count, int step, int writes, const std::string& log);
// Lists and watches the pods. Prints a JSON line with the cost when `count` are there.
void Follow(int count);
// Serves a list without pods, which it does not stream, and a watch that sends the events of the
// file `json`, `rate` per second. A client that accepts protobuf, such as client-go, gets the
// events of `protobuf`: frames that a real server sent. Writes to `log` when each event was due.
void Play(const std::string& json, const std::string& protobuf, double rate, int port,
          const std::string& log);
// Watches what Play serves on `port`; with 0, the pods of $KUBECONFIG's cluster. Writes to `log`
// when each of `count` events arrived.
void Hear(int port, int count, const std::string& log);

// A client of $KUBECONFIG's cluster, without a rate limit.
std::unique_ptr<control::KubeClient> MakeClient(const control::Timeline& timeline);
control::KubeClientOptions BenchClientOptions();
int64_t Nanoseconds(MonotonicTime time);
std::string BenchNamespace();
inline const control::Resource kPods{"", "v1", "pods", "Pod", true};
// The fields of a pod that are kept. e2e/build/kube/clientgo keeps the same.
control::ObjectStoreOptions KeptOfPods();
control::ReflectorOptions PodOptions();

}  // namespace janus::bench
