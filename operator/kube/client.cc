#include "operator/kube/client.h"

#include <utility>

#include "operator/kube/watch_decoder.h"

namespace janus::control {
namespace {

constexpr std::string_view kJson = "application/json";

TransportOptions WithUserAgent(KubeClientOptions options) {
  if (options.transport.user_agent.empty()) {
    options.transport.user_agent = options.name + "/" JANUS_VERSION;
  }
  return options.transport;
}

// "a=1&b=2", without empty values.
class Query {
 public:
  Query& Add(std::string_view name, std::string_view value) {
    if (value.empty()) return *this;
    text_ += text_.empty() ? "?" : "&";
    text_ += name;
    text_ += "=";
    text_ += PercentEncode(value);
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

void AddSelection(const Selection& selection, Query& query) {
  query.Add("labelSelector", selection.label_selector)
      .Add("fieldSelector", selection.field_selector);
}

// `part`: for ParseJson; "items" or nothing.
ApiResult<Node> ReadObject(const HttpReply& reply, const JsonPart& part) {
  Result<Node> read = ParseJson(reply.body, "reply", part);
  if (read.ok() && read->kind == Node::Kind::kMap) return *std::move(read);
  ApiError error =
      LocalError(DataLoss("the server's reply is no object: " +
                          (read.ok() ? reply.body.substr(0, 64) : read.status().message())));
  error.outcome_unknown = true;
  return error;
}

}  // namespace

KubeClient::KubeClient(ClusterConfig config, KubeClientOptions options, const Timeline& timeline)
    : path_prefix_(config.path_prefix),
      field_manager_(options.name),
      watch_silence_(options.watch_silence),
      transport_(std::move(config), WithUserAgent(std::move(options)), timeline) {}

std::string KubeClient::WriteQuery(const WriteOptions& options) const {
  return Query()
      .Add("fieldManager", field_manager_)
      .Add("fieldValidation", options.strict ? "Strict" : "Ignore")
      .Add("dryRun", options.dry_run ? "All" : "")
      .text();
}

ApiResult<HttpReply> KubeClient::Call(HttpRequest request, Repeat repeat,
                                      const CallLimits& limits) {
  request.target = path_prefix_ + request.target;
  request.headers.emplace_back("Accept", kJson);
  return transport_.Call(request, repeat, limits);
}

ApiResult<Node> KubeClient::Send(HttpRequest request, Repeat repeat, const CallLimits& limits) {
  const ApiResult<HttpReply> reply = Call(std::move(request), repeat, limits);
  if (!reply.ok()) return reply.error();
  return ReadObject(*reply, {});
}

ApiResult<Node> KubeClient::Get(const Resource& resource, const ObjectKey& key,
                                Subresource subresource, const CallLimits& limits) {
  Result<std::string> path = ObjectPath(resource, key, subresource);
  if (!path.ok()) return LocalError(std::move(path).status());
  return Send({"GET", *path, {}, {}, {}}, Repeat::kHarmless, limits);
}

ApiResult<ObjectList> KubeClient::List(const Resource& resource, const ListOptions& options,
                                       const CallLimits& limits) {
  Result<std::string> path = CollectionPath(resource, options.selection.namespace_);
  if (!path.ok()) return LocalError(std::move(path).status());
  Query query;
  AddSelection(options.selection, query);
  query.Add("limit", options.limit > 0 ? std::to_string(options.limit) : "")
      .Add("continue", options.continue_token);
  if (options.continue_token.empty() && !options.resource_version.empty()) {
    query.Add("resourceVersion", options.resource_version)
        .Add("resourceVersionMatch", "NotOlderThan");
  }
  const ApiResult<HttpReply> got =
      Call({"GET", *path + query.text(), {}, {}, {}}, Repeat::kHarmless, limits);
  if (!got.ok()) return got.error();
  ApiResult<Node> reply = ReadObject(*got, {"items", options.keep});
  if (!reply.ok()) return std::move(reply).error();
  ObjectList out;
  out.resource_version = ResourceVersionOf(*reply);
  out.continue_token = TextAt(*reply, {"metadata", "continue"});
  if (out.resource_version.empty()) {
    return LocalError(DataLoss("the list of " + resource.ToString() + " has no resourceVersion"));
  }
  Node* const items = const_cast<Node*>(std::as_const(*reply).Find("items"));
  if (items == nullptr) return out;
  out.items = std::move(items->items);
  for (Node& item : out.items) {
    if (item.Find("kind") == nullptr) item.Add("kind", Node::String(resource.kind));
    if (item.Find("apiVersion") == nullptr) {
      item.Add("apiVersion", Node::String(resource.ApiVersion()));
    }
  }
  return out;
}

ApiResult<Node> KubeClient::Create(const Resource& resource, const Node& object,
                                   const WriteOptions& options, const CallLimits& limits) {
  const ObjectKey key = KeyOf(object);
  Result<std::string> path = CollectionPath(resource, key.namespace_);
  if (path.ok() && resource.is_namespaced && key.namespace_.empty()) {
    path = InvalidArgument(resource.ToString() + " '" + key.name + "': which namespace?");
  }
  if (!path.ok()) return LocalError(std::move(path).status());
  return Send({"POST", *path + WriteQuery(options), {}, WriteJson(object), std::string(kJson)},
              Repeat::kHarmful, limits);
}

ApiResult<Node> KubeClient::Update(const Resource& resource, const Node& object,
                                   Subresource subresource, const WriteOptions& options,
                                   const CallLimits& limits) {
  Result<std::string> path = ObjectPath(resource, KeyOf(object), subresource);
  if (!path.ok()) return LocalError(std::move(path).status());
  return Send({"PUT", *path + WriteQuery(options), {}, WriteJson(object), std::string(kJson)},
              Repeat::kHarmful, limits);
}

ApiResult<Node> KubeClient::Apply(const Resource& resource, const Node& object,
                                  Subresource subresource, const ApplyOptions& options,
                                  const CallLimits& limits) {
  Result<std::string> path = ObjectPath(resource, KeyOf(object), subresource);
  if (!path.ok()) return LocalError(std::move(path).status());
  const std::string query = WriteQuery(options.write) + (options.force ? "&force=true" : "");
  // JSON is valid YAML. Applying the same object twice has no further effect.
  return Send({"PATCH", *path + query, {}, WriteJson(object), "application/apply-patch+yaml"},
              Repeat::kHarmless, limits);
}

ApiResult<Node> KubeClient::Patch(const Resource& resource, const ObjectKey& key, PatchKind kind,
                                  const Node& patch, Subresource subresource,
                                  const WriteOptions& options, const CallLimits& limits) {
  Result<std::string> path = ObjectPath(resource, key, subresource);
  if (!path.ok()) return LocalError(std::move(path).status());
  const std::string type =
      kind == PatchKind::kMerge ? "application/merge-patch+json" : "application/json-patch+json";
  return Send({"PATCH", *path + WriteQuery(options), {}, WriteJson(patch), type}, Repeat::kHarmful,
              limits);
}

ApiResult<Node> KubeClient::Delete(const Resource& resource, const ObjectKey& key,
                                   const DeleteOptions& options, const CallLimits& limits) {
  Result<std::string> path = ObjectPath(resource, key, Subresource::kNone);
  if (!path.ok()) return LocalError(std::move(path).status());
  Node body = Node::Map();
  body.Add("kind", Node::String("DeleteOptions"));
  body.Add("apiVersion", Node::String("v1"));
  switch (options.propagation) {
    case Propagation::kBackground:
      body.Add("propagationPolicy", Node::String("Background"));
      break;
    case Propagation::kForeground:
      body.Add("propagationPolicy", Node::String("Foreground"));
      break;
    case Propagation::kOrphan:
      body.Add("propagationPolicy", Node::String("Orphan"));
      break;
  }
  if (options.uid) SetAt(body, {"preconditions", "uid"}, Node::String(*options.uid));
  if (options.resource_version) {
    SetAt(body, {"preconditions", "resourceVersion"}, Node::String(*options.resource_version));
  }
  if (options.grace_period_seconds) {
    body.Add("gracePeriodSeconds", Node::Integer(*options.grace_period_seconds));
  }
  if (options.dry_run) body.Add("dryRun", Node::List()).items.push_back(Node::String("All"));
  return Send({"DELETE", *path, {}, WriteJson(body), std::string(kJson)}, Repeat::kHarmful, limits);
}

ApiResult<WatchEnd> KubeClient::Watch(const Resource& resource, const WatchOptions& options,
                                      FunctionRef<bool(WatchEvent)> deliver,
                                      const std::stop_token& stop) {
  Result<std::string> path = CollectionPath(resource, options.selection.namespace_);
  if (path.ok() && options.resource_version.empty() && !options.initial_events) {
    path = InvalidArgument("a watch of " + resource.ToString() + " begins at a resourceVersion");
  }
  if (!path.ok()) return LocalError(std::move(path).status());
  Query query;
  query.Add("watch", "true").Add("allowWatchBookmarks", "true");
  AddSelection(options.selection, query);
  query.Add("sendInitialEvents", options.initial_events ? "true" : "")
      .Add("resourceVersionMatch", options.initial_events ? "NotOlderThan" : "")
      .Add("resourceVersion", options.resource_version)
      .Add("timeoutSeconds", std::to_string(static_cast<int64_t>(options.timeout.count())));

  WatchDecoder decoder(options.keep);
  bool has_begun = false;
  ApiResult<WatchEnd> last = WatchEnd::kServer;
  const BodySink sink{[&] { has_begun = true; },
                      [&](std::string_view bytes) {
                        last = decoder.Feed(bytes, deliver);
                        return last.ok() && *last == WatchEnd::kServer;
                      },
                      watch_silence_};
  ApiResult<bool> ended = transport_.Stream(
      {"GET", path_prefix_ + *path + query.text(), {{"Accept", std::string(kJson)}}, {}, {}}, sink,
      stop);
  if (!ended.ok()) {
    ApiError error = std::move(ended).error();
    const bool is_between_events = has_begun && !decoder.IsInEvent();
    if (error.code == StatusCode::kUnavailable && is_between_events) return WatchEnd::kServer;
    if (error.code != StatusCode::kDeadlineExceeded) return error;
    if (is_between_events) return WatchEnd::kSilence;
    error.code = StatusCode::kUnavailable;
    return error;
  }
  if (*ended && decoder.IsInEvent()) {
    return LocalError(
        Unavailable("the watch of " + resource.ToString() + " ended inside an event"));
  }
  return last;
}

}  // namespace janus::control
