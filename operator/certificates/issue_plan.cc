#include "operator/certificates/issue_plan.h"

#include <algorithm>
#include <utility>

#include "common/fingerprint.h"
#include "operator/api/json.h"
#include "operator/api/tree.h"

namespace janus::control {
namespace {

WallTime Add(WallTime time, Seconds later) {
  return time + std::chrono::duration_cast<WallTime::duration>(later);
}

// When two thirds of the lifetime are over.
WallTime RenewalOf(WallTime made, WallTime expires) {
  return made + (expires - made) / 3 * 2;
}

const IssuedAuthority* FindAuthority(const Issued& issued, const std::string& id) {
  const auto found = std::find_if(issued.authorities.begin(), issued.authorities.end(),
                                  [&](const IssuedAuthority& one) { return one.id == id; });
  return found == issued.authorities.end() ? nullptr : &*found;
}

int64_t SecondsOf(WallTime time) {
  return std::chrono::system_clock::to_time_t(time);
}

WallTime TimeOf(const Node& object, std::string_view field) {
  const Node* const value = object.Find(field);
  return std::chrono::system_clock::from_time_t(value == nullptr ? 0 : value->integer);
}

std::string TextOf(const Node& object, std::string_view field) {
  const Node* const value = object.Find(field);
  return value == nullptr ? "" : value->text;
}

uint64_t ContentOf(const KeyPair& pair) {
  return Fingerprint().Mix(pair.certificate).value();
}

Node TreeOf(const KeyPair& pair, WallTime made, WallTime expires) {
  Node out = Node::Map();
  out.Add("certificate", Node::String(pair.certificate));
  out.Add("key", Node::String(pair.key));
  out.Add("madeSeconds", Node::Integer(SecondsOf(made)));
  out.Add("expiresSeconds", Node::Integer(SecondsOf(expires)));
  return out;
}

}  // namespace

const IssuedLeaf* Issued::Find(PeerRole role) const {
  const auto found = std::find_if(leaves.begin(), leaves.end(),
                                  [&](const IssuedLeaf& one) { return one.role == role; });
  return found == leaves.end() ? nullptr : &*found;
}

std::string Issued::Bundle() const {
  std::string out;
  for (const IssuedAuthority& one : authorities) out += one.pair.certificate;
  return out;
}

Issued Issued::WithoutPairs() const {
  Issued out;
  out.renewal = renewal;
  out.authorities.reserve(authorities.size());
  for (const IssuedAuthority& one : authorities) {
    out.authorities.push_back({one.id, {}, one.made, one.expires});
  }
  out.leaves.reserve(leaves.size());
  for (const IssuedLeaf& one : leaves) {
    out.leaves.push_back({one.role, one.issuer, {}, one.made, one.expires, one.content});
  }
  return out;
}

IssuePlan PlanIssue(const Issued& issued, const std::vector<PeerRole>& roles,
                    const Lifetimes& lifetimes, WallTime now,
                    const IssueCircumstances& circumstances) {
  IssuePlan plan;
  const bool is_asked = !circumstances.renewal.empty() && circumstances.renewal != issued.renewal;
  plan.renewal = is_asked ? circumstances.renewal : issued.renewal;
  std::vector<const IssuedAuthority*> left;
  for (const IssuedAuthority& one : issued.authorities) {
    if (one.expires <= now) {
      plan.dropped.push_back(one.id);
    } else {
      left.push_back(&one);
    }
  }

  // The newest authority that every machine has had time to learn of; without such (at the start,
  // or after months asleep), the oldest.
  const auto has_signed = [&](const IssuedAuthority& one) {
    return std::any_of(issued.leaves.begin(), issued.leaves.end(),
                       [&](const IssuedLeaf& leaf) { return leaf.issuer == one.id; });
  };
  for (const IssuedAuthority* const one : left) {
    const bool may_sign =
        (circumstances.is_heard && Add(one->made, lifetimes.spread) <= now) || has_signed(*one);
    if (!plan.signer || may_sign) plan.signer = one->id;
  }
  // For a requested renewal, a newest authority that has not signed yet suffices.
  plan.makes_authority = left.empty() ||
                         RenewalOf(left.back()->made, left.back()->expires) <= now ||
                         (is_asked && has_signed(*left.back()));
  bool is_settled = circumstances.is_shown;
  for (const PeerRole role : roles) {
    const IssuedLeaf* const leaf = issued.Find(role);
    is_settled = is_settled && leaf != nullptr && Add(leaf->made, lifetimes.spread) <= now;
    if (is_asked || leaf == nullptr || leaf->issuer != plan.signer ||
        RenewalOf(leaf->made, leaf->expires) <= now) {
      plan.leaves.push_back(role);
    }
  }
  if (!is_settled || !plan.leaves.empty()) return plan;
  for (const IssuedAuthority* const one : left) {
    if (one->id == plan.signer) break;
    plan.dropped.push_back(one->id);
  }
  return plan;
}

WallTime NextIssue(const Issued& issued, const Lifetimes& lifetimes, WallTime now) {
  WallTime next = WallTime::max();
  const auto at = [&](WallTime time) {
    if (time > now) next = std::min(next, time);
  };
  for (const IssuedAuthority& one : issued.authorities) {
    at(one.expires);
    at(Add(one.made, lifetimes.spread));
  }
  if (!issued.authorities.empty()) {
    const IssuedAuthority& newest = issued.authorities.back();
    at(RenewalOf(newest.made, newest.expires));
  }
  for (const IssuedLeaf& leaf : issued.leaves) {
    at(RenewalOf(leaf.made, leaf.expires));
    if (issued.authorities.size() > 1) at(Add(leaf.made, lifetimes.spread));
  }
  return next;
}

Result<Issued> Issue(Issued issued, const IssuePlan& plan, const std::string& authority_uri,
                     const Lifetimes& lifetimes, WallTime now) {
  std::erase_if(issued.authorities, [&](const IssuedAuthority& one) {
    return std::find(plan.dropped.begin(), plan.dropped.end(), one.id) != plan.dropped.end();
  });
  issued.renewal = plan.renewal;
  const WallTime from = Add(now, -lifetimes.skew);
  if (plan.makes_authority) {
    IssuedAuthority made;
    made.made = now;
    made.expires = Add(now, lifetimes.authority);
    JANUS_ASSIGN_OR_RETURN(made.pair, MakeAuthority(authority_uri, {from, made.expires}));
    made.id = Fingerprint().Mix(made.pair.certificate).Hex();
    issued.authorities.push_back(std::move(made));
  }
  const IssuedAuthority* const signer =
      plan.signer ? FindAuthority(issued, *plan.signer) : &issued.authorities.back();
  if (signer == nullptr) return Internal("the authority that should sign is not there");
  for (const PeerRole role : plan.leaves) {
    std::erase_if(issued.leaves, [&](const IssuedLeaf& one) { return one.role == role; });
    IssuedLeaf leaf;
    leaf.role = role;
    leaf.issuer = signer->id;
    leaf.made = now;
    leaf.expires = std::min(Add(now, lifetimes.leaf), signer->expires);
    JANUS_ASSIGN_OR_RETURN(
        leaf.pair, IssueLeaf(signer->pair, ToUri({authority_uri, role}), {from, leaf.expires}));
    leaf.content = ContentOf(leaf.pair);
    issued.leaves.push_back(std::move(leaf));
  }
  return issued;
}

std::string WriteIssued(const Issued& issued) {
  Node authorities = Node::List(), leaves = Node::List();
  for (const IssuedAuthority& one : issued.authorities) {
    Node tree = TreeOf(one.pair, one.made, one.expires);
    tree.Add("id", Node::String(one.id));
    authorities.items.push_back(std::move(tree));
  }
  for (const IssuedLeaf& one : issued.leaves) {
    Node tree = TreeOf(one.pair, one.made, one.expires);
    tree.Add("role", Node::String(ToString(one.role)));
    tree.Add("issuer", Node::String(one.issuer));
    leaves.items.push_back(std::move(tree));
  }
  Node root = Node::Map();
  root.Add("authorities", std::move(authorities));
  root.Add("leaves", std::move(leaves));
  root.Add("renewal", Node::String(issued.renewal));
  return WriteJson(root);
}

Result<Issued> ReadIssued(const std::string& text) {
  JANUS_ASSIGN_OR_RETURN(const Node root, ParseJson(text, "what was issued"));
  const Node* const authorities = root.Find("authorities");
  const Node* const leaves = root.Find("leaves");
  if (authorities == nullptr || leaves == nullptr) {
    return InvalidArgument("what was issued has no authorities or leaves");
  }
  Issued out;
  out.renewal = TextOf(root, "renewal");
  for (const Node& tree : authorities->items) {
    out.authorities.push_back({TextOf(tree, "id"),
                               {TextOf(tree, "certificate"), TextOf(tree, "key")},
                               TimeOf(tree, "madeSeconds"),
                               TimeOf(tree, "expiresSeconds")});
  }
  for (const Node& tree : leaves->items) {
    const std::optional<PeerRole> role = PeerRoleNamed(TextOf(tree, "role"));
    if (!role) return InvalidArgument("'" + TextOf(tree, "role") + "' is no role");
    KeyPair pair{TextOf(tree, "certificate"), TextOf(tree, "key")};
    const uint64_t content = ContentOf(pair);
    out.leaves.push_back({*role, TextOf(tree, "issuer"), std::move(pair),
                          TimeOf(tree, "madeSeconds"), TimeOf(tree, "expiresSeconds"), content});
  }
  return out;
}

}  // namespace janus::control
