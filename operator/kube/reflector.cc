#include "operator/kube/reflector.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/check.h"
#include "operator/kube/retry.h"

namespace janus::control {
namespace {

// A watch that ends sooner counts as refused by the server.
constexpr Seconds kShortWatch{1};

// True if the reply exceeded the size limit.
bool IsTooLong(const ApiError& error) {
  return error.code == StatusCode::kResourceExhausted && error.http_status == 0;
}

// True if the same call may work later. Otherwise the reply or the request itself is wrong.
bool MayCallAgain(const ApiError& error) {
  switch (error.code) {
    case StatusCode::kUnavailable:
    case StatusCode::kDeadlineExceeded:
    case StatusCode::kCancelled:
    case StatusCode::kPermissionDenied:
    case StatusCode::kFailedPrecondition:
      return true;
    case StatusCode::kResourceExhausted:
      return !IsTooLong(error);
    default:
      return false;
  }
}

MonotonicTime Add(MonotonicTime time, Seconds by) {
  return time + std::chrono::duration_cast<MonotonicTime::duration>(by);
}

}  // namespace

Reflector::Reflector(ObjectApi& api, Resource resource, ReflectorOptions options,
                     ObjectStore& store, Deliver deliver, const Timeline& timeline)
    : api_(api),
      resource_(std::move(resource)),
      options_(std::move(options)),
      keep_(options_.keep ? std::optional(options_.keep->With("metadata.resourceVersion"))
                          : std::nullopt),
      store_(store),
      deliver_(std::move(deliver)),
      timeline_(timeline),
      random_(RandomOf(options_.seed)),
      page_size_(options_.page_size) {
  JANUS_CHECK(options_.page_size >= 1 && options_.max_fruitless_watches >= 1 &&
                  options_.first_pause > Seconds(0) &&
                  options_.longest_pause >= options_.first_pause,
              options_.page_size, options_.max_fruitless_watches, options_.first_pause.count(),
              options_.longest_pause.count());
}

bool Reflector::HasSynced() const {
  const MutexLock lock(mu_);
  return statistics_.lists > 0;
}

ReflectorStatistics Reflector::statistics() const {
  const MutexLock lock(mu_);
  return statistics_;
}

void Reflector::Run(const std::stop_token& stop) {
  Next next = Next::kList;
  while (!stop.stop_requested()) {
    next = next == Next::kList ? List(stop) : Watch(Begin::kVersion, stop);
  }
}

void Reflector::Count(FunctionRef<void(ReflectorStatistics&)> change) {
  const MutexLock lock(mu_);
  const auto told_before = statistics_.told_at;
  change(statistics_);
  if (options_.metrics == nullptr) return;
  const bool is_told = statistics_.told_at != told_before;
  options_.metrics->Publish(statistics_,
                            is_told ? std::optional(timeline_.WallNow()) : std::nullopt);
}

void Reflector::DeliverDelta(const Delta& delta) {
  Count([](ReflectorStatistics& counts) { ++counts.deltas; });
  if (deliver_) deliver_(delta);
}

void Reflector::Failed(Status error) {
  Count([&](ReflectorStatistics& counts) {
    ++counts.failures;
    counts.last_error = std::move(error);
  });
}

// `error`: null if the server sent none.
void Reflector::Pause(const ApiError* error, const std::stop_token& stop) {
  ++failures_;
  Seconds pause = BackoffPause(options_.first_pause, options_.longest_pause, failures_, random_);
  if (error != nullptr) pause = std::max(pause, error->retry_after.value_or(Seconds(0)));
  timeline_.WaitUntil(Add(timeline_.Now(), pause), stop);
}

Reflector::Next Reflector::List(const std::stop_token& stop) {
  Count([](ReflectorStatistics& counts) { counts.relists += counts.lists > 0 ? 1 : 0; });
  if (may_stream_ && !std::exchange(is_pages_turn_, false)) {
    return Watch(Begin::kInitialEvents, stop);
  }
  return ListInPages(stop);
}

// A list is complete: the store equals the resource at `version`.
void Reflector::Listed(std::string version, bool is_stream) {
  store_.EndList([this](const Delta& delta) { DeliverDelta(delta); },
                 options_.selection.namespace_);
  version_ = std::move(version);
  fruitless_ = 0;
  has_told_since_list_ = false;
  Count([&](ReflectorStatistics& counts) {
    ++counts.lists;
    counts.streams += is_stream ? 1 : 0;
    counts.last_error = OkStatus();
    counts.resource_version = version_;
    counts.told_at = timeline_.Now();
  });
  if (options_.on_listed) options_.on_listed();
}

// Lists from the first page.
Reflector::Next Reflector::ListInPages(const std::stop_token& stop) {
  const auto deliver = [this](const Delta& delta) { DeliverDelta(delta); };
  std::optional<std::string> first_version;
  ListOptions options;
  options.selection = options_.selection;
  options.limit = page_size_;
  if (keep_) options.keep = &*keep_;
  for (bool has_more = true; has_more;) {
    if (stop.stop_requested()) return Next::kList;
    ApiResult<ObjectList> page = api_.List(resource_, options, {options_.page_timeout, stop});
    if (stop.stop_requested()) return Next::kList;
    if (!page.ok()) {
      Failed(page.status());
      Pause(&page.error(), stop);
      if (IsTooLong(page.error())) {
        page_size_ = std::max<int64_t>(1, page_size_ / 2);
        options.limit = page_size_;
      } else if (!MayCallAgain(page.error())) {
        return Next::kList;  // the server would refuse the same token again
      }
      continue;
    }
    if (!first_version) {
      first_version = page->resource_version;
      store_.BeginList(options_.selection.namespace_);
    }
    options.continue_token = std::move(page->continue_token);
    has_more = !options.continue_token.empty();
    store_.TakePage(std::move(page->items), deliver);
    Count([](ReflectorStatistics& counts) {
      ++counts.pages;
      counts.last_error = OkStatus();
    });
  }
  // All pages should have one version. If they differ, watching from the first one misses nothing.
  Listed(*std::move(first_version), false);
  return Next::kWatch;
}

// `when`: whether the initial events are still arriving.
ObjectStore::Verdict Reflector::TakeEvent(WatchEvent event, Begin when) {
  const bool is_bookmark = event.type == WatchEventType::kBookmark;
  std::string version(ResourceVersionOf(event.object));
  const ObjectStore::Verdict verdict =
      store_.TakeEvent(std::move(event), [this](const Delta& delta) { DeliverDelta(delta); });
  if (verdict == ObjectStore::Verdict::kListAgain) return verdict;
  if (when == Begin::kVersion) {
    if (!version.empty()) version_ = std::move(version);
    failures_ = 0;
    fruitless_ = 0;
    has_told_since_list_ = true;
  }
  const bool is_unchanged = !is_bookmark && verdict == ObjectStore::Verdict::kNothingNew;
  Count([&](ReflectorStatistics& counts) {
    ++counts.events;
    counts.bookmarks += is_bookmark ? 1 : 0;
    counts.unchanged += is_unchanged ? 1 : 0;
    counts.last_error = OkStatus();
    counts.resource_version = version_;
    counts.told_at = timeline_.Now();
  });
  return verdict;
}

// One watch: from version_ on, or with initial events that form a list.
Reflector::Next Reflector::Watch(Begin begin, const std::stop_token& stop) {
  bool is_listing = begin == Begin::kInitialEvents;
  WatchOptions options;
  options.selection = options_.selection;
  options.initial_events = is_listing;
  if (is_listing) {
    store_.BeginList(options_.selection.namespace_);
  } else {
    options.resource_version = version_;
  }
  if (keep_) options.keep = &*keep_;
  options.timeout = options_.watch_timeout * std::uniform_real_distribution<double>(1, 2)(random_);
  Count([](ReflectorStatistics& counts) { ++counts.watches; });
  const MonotonicTime began = timeline_.Now();
  bool has_told = false;
  bool is_contradiction = false;
  bool is_end_missed = false;
  const ApiResult<WatchEnd> end = api_.Watch(
      resource_, options,
      [&](WatchEvent event) {
        if (is_listing && event.type == WatchEventType::kBookmark) {
          is_end_missed = !event.ends_initial_events;
          if (is_end_missed) return false;
          Listed(std::string(ResourceVersionOf(event.object)), true);
          is_listing = false;
          has_told = true;
          return !stop.stop_requested();
        }
        const Begin when = is_listing ? Begin::kInitialEvents : Begin::kVersion;
        is_contradiction = TakeEvent(std::move(event), when) == ObjectStore::Verdict::kListAgain;
        has_told = has_told || !is_contradiction;
        return !is_contradiction && !stop.stop_requested();
      },
      stop);
  if (stop.stop_requested()) return Next::kWatch;
  const std::string what = "the watch of " + resource_.ToString();
  std::optional<ApiError> error;
  if (!end.ok()) error = end.error();
  if (is_contradiction) {
    error = LocalError(OutOfRange(what + " deleted an object it had not told of"));
  } else if (is_end_missed) {
    error = LocalError(Unimplemented(what + " does not say where its initial events end"));
  } else if (is_listing && !error) {
    error = LocalError(Unavailable(what + " ended inside its initial events"));
  }
  if (error)
    return is_listing ? AfterBrokenStream(*error, stop) : AfterError(*error, has_told, stop);
  if (timeline_.Now() - began >= kShortWatch) {
    failures_ = 0;
    fruitless_ = 0;
    return Next::kWatch;
  }
  Failed(Unavailable(what + " was ended by the server at once"));
  if (!has_told) return AfterFruitlessWatch(nullptr, stop);
  Pause(nullptr, stop);
  return Next::kWatch;
}

// For a stream that broke before its initial events were complete.
Reflector::Next Reflector::AfterBrokenStream(const ApiError& error, const std::stop_token& stop) {
  if (error.code == StatusCode::kInvalidArgument || error.code == StatusCode::kUnimplemented) {
    may_stream_ = false;  // an older server, or one configured without it: not a failure
    return Next::kList;
  }
  is_pages_turn_ = true;
  Failed(error.ToStatus());
  Pause(&error, stop);
  return Next::kList;
}

Reflector::Next Reflector::AfterError(const ApiError& error, bool has_told,
                                      const std::stop_token& stop) {
  Failed(error.ToStatus());
  if (error.code == StatusCode::kOutOfRange) {
    if (!has_told_since_list_) Pause(&error, stop);  // lists and watches contradict each other
    return Next::kList;
  }
  if (!MayCallAgain(error)) {
    Pause(&error, stop);
    return Next::kList;
  }
  // No reply, or a reply that asks to wait, does not mean that the version is wrong.
  const bool is_answer = error.http_status != 0 && error.code != StatusCode::kResourceExhausted;
  if (is_answer && !has_told) return AfterFruitlessWatch(&error, stop);
  Pause(&error, stop);
  return Next::kWatch;
}

Reflector::Next Reflector::AfterFruitlessWatch(const ApiError* error, const std::stop_token& stop) {
  Pause(error, stop);
  return ++fruitless_ < options_.max_fruitless_watches ? Next::kWatch : Next::kList;
}

}  // namespace janus::control
