#include "operator/local/store/store_client.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "operator/local/store/errors.h"
#include "operator/local/store/scale.h"
#include "operator/local/store/selectors.h"
#include "operator/local/store/watch_filter.h"
#include "operator/local/store/write.h"

namespace janus::control {
namespace {

using Session = LocalStore::Session;

constexpr size_t kMostHeardAtOnce = 256;

// Digits only.
std::optional<int64_t> ParseVersion(std::string_view text) {
  int64_t version = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  if (error != std::errc() || end != text.data() + text.size() || version < 0) return std::nullopt;
  return version;
}

ApiError BadVersion(const std::string& text) {
  return BadRequest("invalid resource version '" + text.substr(0, 64) + "'");
}

// Runs `act` on the kind of `resource`, unless the caller has given up.
template <class T, class Act>
ApiResult<T> With(LocalStore& store, const Resource& resource, const CallLimits& limits,
                  const Act& act) {
  if (limits.stop.stop_requested()) return LocalError(Cancelled("stopped before it was sent"));
  const Kind* const kind = FindKind(resource);
  if (kind == nullptr) return NoSuchResource(resource);
  std::optional<ApiResult<T>> out;
  store.Do([&](Session& session) { out.emplace(act(session, *kind)); });
  return *std::move(out);
}

// The client-side error for a key that no URL can have.
std::optional<ApiError> CheckKey(const Resource& resource, const ObjectKey& key) {
  const Result<std::string> path = ObjectPath(resource, key, Subresource::kNone);
  if (path.ok()) return {};
  return LocalError(path.status());
}

// Start of the next page: "<version>/<namespace>/<name of the last>".
struct ContinueToken {
  int64_t version = 0;
  ObjectKey last;

  std::string ToText() const {
    return std::to_string(version) + "/" + last.namespace_ + "/" + last.name;
  }
  static std::optional<ContinueToken> Parse(std::string_view text) {
    const size_t first = text.find('/');
    if (first == text.npos) return std::nullopt;
    const size_t second = text.find('/', first + 1);
    const std::optional<int64_t> version = ParseVersion(text.substr(0, first));
    if (second == text.npos || !version) return std::nullopt;
    return ContinueToken{*version,
                         {std::string(text.substr(first + 1, second - first - 1)),
                          std::string(text.substr(second + 1))}};
  }
};

struct Chunk {
  std::vector<SharedObject> objects;
  int64_t version = 0;
  std::string continue_token;
};

ApiResult<Chunk> ListChunk(Session& session, const Kind& kind, const Selector& selector,
                           const ListOptions& options) {
  const Tables& tables = session.tables;
  Chunk out;
  out.version = tables.version();
  std::optional<ContinueToken> token;
  if (!options.continue_token.empty()) {
    token = ContinueToken::Parse(options.continue_token);
    if (!token || token->version > tables.version()) {
      return BadRequest("the continue token is not from this server");
    }
    out.version = token->version;
  } else if (!options.resource_version.empty()) {
    const std::optional<int64_t> wanted = ParseVersion(options.resource_version);
    if (!wanted) return BadVersion(options.resource_version);
    if (*wanted > out.version) return VersionIsAhead(*wanted, out.version);
  }
  if (out.version < tables.history().floor()) {
    return VersionIsTooOld(out.version, tables.history().floor());
  }
  const auto limit =
      options.limit > 0 ? static_cast<size_t>(options.limit) : std::numeric_limits<size_t>::max();
  ObjectKey last;
  const std::string& in_namespace = options.selection.namespace_;
  // False: the page is full.
  const auto take = [&](const ObjectKey& key, const SharedObject& object) {
    if (!in_namespace.empty() && key.namespace_ != in_namespace) return true;
    // Set even if the selector matches none of the rest, as in an API server.
    if (out.objects.size() == limit) {
      out.continue_token = ContinueToken{out.version, last}.ToText();
      return false;
    }
    if (!selector.Matches(*object)) return true;
    out.objects.push_back(object);
    last = key;
    return true;
  };
  const bool is_newest = out.version == tables.version();
  const Table then = is_newest ? Table() : tables.SnapshotAt(kind, out.version);
  const Table& table = is_newest ? tables.TableOf(kind) : then;
  auto one = token ? table.upper_bound(token->last) : table.begin();
  while (one != table.end() && take(one->first, one->second)) ++one;
  return out;
}

// The events of a watch after `position`, which advances to the last change examined.
ApiResult<std::vector<Heard>> HearMore(Session& session, const Kind& kind, const Selector& selector,
                                       int64_t& position) {
  const History& history = session.tables.history();
  if (position < history.floor()) return VersionIsTooOld(position, history.floor());
  if (position > history.newest()) return VersionIsAhead(position, history.newest());
  std::vector<Heard> out;
  while (position < history.newest() && out.size() < kMostHeardAtOnce) {
    ++position;
    if (std::optional<Heard> heard = Hear(history.At(position), kind, selector)) {
      out.push_back(*std::move(heard));
    }
  }
  return out;
}

// The current objects, at a version of at least `at_least`: for a watch from version 0, or with
// initial events.
ApiResult<std::vector<Heard>> HearAll(Session& session, const Kind& kind, const Selector& selector,
                                      int64_t at_least, int64_t& position) {
  std::vector<Heard> out;
  position = session.tables.version();
  if (at_least > position) return VersionIsAhead(at_least, position);
  for (const auto& [key, object] : session.tables.TableOf(kind)) {
    if (selector.Matches(*object)) out.push_back({WatchEventType::kAdded, object, position});
  }
  return out;
}

}  // namespace

ApiResult<Node> StoreClient::Get(const Resource& resource, const ObjectKey& key,
                                 Subresource subresource, const CallLimits& limits) {
  if (std::optional<ApiError> error = CheckKey(resource, key)) return *std::move(error);
  return With<Node>(store_, resource, limits,
                    [&](Session& session, const Kind& kind) -> ApiResult<Node> {
                      if (subresource == Subresource::kStatus && !kind.has_status) {
                        return NoSuchSubresource(resource, "status");
                      }
                      if (subresource == Subresource::kScale && kind.scale_selector_in.empty()) {
                        return NoSuchSubresource(resource, "scale");
                      }
                      const SharedObject found = session.tables.Find(kind, key);
                      if (found == nullptr) return NoSuchObject(resource, key.name);
                      if (subresource == Subresource::kScale) return ScaleOf(kind, *found);
                      return *found;
                    });
}

ApiResult<ObjectList> StoreClient::List(const Resource& resource, const ListOptions& options,
                                        const CallLimits& limits) {
  const Result<std::string> path = CollectionPath(resource, options.selection.namespace_);
  if (!path.ok()) return LocalError(path.status());
  ApiResult<Chunk> chunk = With<Chunk>(
      store_, resource, limits, [&](Session& session, const Kind& kind) -> ApiResult<Chunk> {
        const Result<Selector> selector =
            Selector::Parse(options.selection, kind.selectable_fields);
        if (!selector.ok()) return BadRequest(selector.status().message());
        return ListChunk(session, kind, *selector, options);
      });
  if (!chunk.ok()) return std::move(chunk).error();
  // Copied without the lock.
  ObjectList out;
  out.resource_version = std::to_string(chunk->version);
  out.continue_token = chunk->continue_token;
  out.items.reserve(chunk->objects.size());
  for (const SharedObject& object : chunk->objects) out.items.push_back(*object);
  return out;
}

ApiResult<Node> StoreClient::Create(const Resource& resource, const Node& object,
                                    const WriteOptions& options, const CallLimits& limits) {
  const std::string ns = KeyOf(object).namespace_;
  Result<std::string> path = CollectionPath(resource, ns);
  if (path.ok() && resource.is_namespaced && ns.empty()) {
    path = InvalidArgument(resource.ToString() + " '" + KeyOf(object).name + "': which namespace?");
  }
  if (!path.ok()) return LocalError(path.status());
  return With<Node>(store_, resource, limits, [&](Session& session, const Kind& kind) {
    return CreateObject(session, kind, object, {field_manager_, false, Subresource::kNone},
                        options);
  });
}

ApiResult<Node> StoreClient::Update(const Resource& resource, const Node& object,
                                    Subresource subresource, const WriteOptions& options,
                                    const CallLimits& limits) {
  if (std::optional<ApiError> error = CheckKey(resource, KeyOf(object))) return *std::move(error);
  return With<Node>(store_, resource, limits, [&](Session& session, const Kind& kind) {
    return UpdateObject(session, kind, object, {field_manager_, false, subresource}, options);
  });
}

ApiResult<Node> StoreClient::Apply(const Resource& resource, const Node& object,
                                   Subresource subresource, const ApplyOptions& options,
                                   const CallLimits& limits) {
  if (std::optional<ApiError> error = CheckKey(resource, KeyOf(object))) return *std::move(error);
  return With<Node>(store_, resource, limits, [&](Session& session, const Kind& kind) {
    return ApplyObject(session, kind, object, {field_manager_, true, subresource}, options);
  });
}

ApiResult<Node> StoreClient::Patch(const Resource& resource, const ObjectKey& key, PatchKind kind,
                                   const Node& patch, Subresource subresource,
                                   const WriteOptions& options, const CallLimits& limits) {
  if (std::optional<ApiError> error = CheckKey(resource, key)) return *std::move(error);
  return With<Node>(store_, resource, limits, [&](Session& session, const Kind& of) {
    return PatchObject(session, of, key, kind, patch, {field_manager_, false, subresource},
                       options);
  });
}

ApiResult<Node> StoreClient::Delete(const Resource& resource, const ObjectKey& key,
                                    const DeleteOptions& options, const CallLimits& limits) {
  if (std::optional<ApiError> error = CheckKey(resource, key)) return *std::move(error);
  return With<Node>(store_, resource, limits, [&](Session& session, const Kind& kind) {
    return DeleteObject(session, kind, key, options);
  });
}

ApiResult<WatchEnd> StoreClient::Watch(const Resource& resource, const WatchOptions& options,
                                       FunctionRef<bool(WatchEvent)> deliver,
                                       const std::stop_token& stop) {
  Result<std::string> path = CollectionPath(resource, options.selection.namespace_);
  if (path.ok() && options.resource_version.empty() && !options.initial_events) {
    path = InvalidArgument("a watch of " + resource.ToString() + " begins at a resourceVersion");
  }
  if (!path.ok()) return LocalError(path.status());
  const Kind* const kind = FindKind(resource);
  if (kind == nullptr) return NoSuchResource(resource);
  const Result<Selector> selector = Selector::Parse(options.selection, kind->selectable_fields);
  if (!selector.ok()) return BadRequest(selector.status().message());
  const bool wants_newest = options.resource_version.empty();
  const std::optional<int64_t> begin =
      wants_newest ? std::optional<int64_t>(0) : ParseVersion(options.resource_version);
  if (!begin) return NoVersion(options.resource_version);

  const Timeline& timeline = store_.timeline();
  const MonotonicTime start = timeline.Now();
  const MonotonicTime end =
      start + std::chrono::duration_cast<MonotonicClock::duration>(options.timeout);
  BookmarkTimes bookmarks(start, end);
  int64_t position = *begin;
  bool is_first = *begin == 0 || options.initial_events;
  bool owes_end = options.initial_events;  // the end of the initial events is still to be sent
  while (true) {
    if (stop.stop_requested()) return LocalError(Cancelled("the watch was stopped"));
    ApiResult<std::vector<Heard>> heard = std::vector<Heard>();
    store_.Do([&](Session& session) {
      heard = is_first ? HearAll(session, *kind, *selector, *begin, position)
                       : HearMore(session, *kind, *selector, position);
    });
    is_first = false;
    if (!heard.ok()) return std::move(heard).error();
    for (const Heard& one : *heard) {
      if (stop.stop_requested()) return LocalError(Cancelled("the watch was stopped"));
      if (!deliver(ToEvent(one))) return WatchEnd::kConsumer;
    }
    if (std::exchange(owes_end, false)) {
      WatchEvent end_of_initial = Bookmark(*kind, position);
      end_of_initial.ends_initial_events = true;
      if (!deliver(std::move(end_of_initial))) return WatchEnd::kConsumer;
    }
    const MonotonicTime now = timeline.Now();
    if (bookmarks.IsDue(now)) {
      if (!deliver(Bookmark(*kind, position))) return WatchEnd::kConsumer;
      bookmarks.Sent(now);
    }
    if (now >= end) return WatchEnd::kServer;
    store_.WaitBeyond(position, bookmarks.Next(), stop);
  }
}

}  // namespace janus::control
