"""What an edit of each field of MoEService's spec changes, as docs/kubernetes.md promises.

ROWS has one Edit for each leaf of the schema, by its path. edits_test.py makes these edits, and checks that the table
covers the schema.
"""

import dataclasses

# What an edit may change: pods of a role (the name: all are replaced; "+", "-": more or fewer, no pod is replaced), the
# topology, the gateway's Deployment, the Service, the PodDisruptionBudgets, the MoERoleScalers, the NetworkPolicies.
ATTENTION, EXPERTS = {"attention", "epoch"}, {"experts", "epoch"}
BOTH = ATTENTION | EXPERTS
EPOCH, GATEWAY, ENDPOINT, NOTHING = {"epoch"}, {"gateway"}, {"endpoint"}, set()


def at(path, value):
    """A tree with the value at this dotted path."""
    for name in reversed(path.split(".")):
        value = {name: value}
    return value


def value_at(tree, path):
    for name in path.split("."):
        tree = tree.get(name) if isinstance(tree, dict) else None
    return tree


def merged(tree, other):
    """A JSON merge patch: null removes a field."""
    out = dict(tree)
    for name, value in other.items():
        if value is None:
            out.pop(name, None)
        else:
            out[name] = merged(out.get(name) or {}, value) if isinstance(value, dict) else value
    return out


@dataclasses.dataclass
class Edit:
    after: dict  # merged into the service
    moves: set = dataclasses.field(default_factory=set)
    before: dict = dataclasses.field(default_factory=dict)  # fields that the service has in addition
    stalled: str = ""  # the reason if the edit is not carried out
    refused: str = ""  # the API server's message if it refuses the edit
    needs_hub: bool = False  # tried in e2e/hub, as no fake pod fetches a model


ROWS = {}


def row(path, value, moves=None, before=None, **more):
    """`value`: the value of the field; or a tree, if other fields change with it."""
    is_tree = isinstance(value, dict) and value_at(value, path) is not None
    ROWS[path] = Edit(value if is_tree else at(path, value), moves or set(), before or {}, **more)


def not_supported(path, value, before=None):
    row(path, value, before=before, stalled="NotSupported")


def source(kind, **member):
    """A source of a model, which replaces the service's source."""
    name = kind[0].lower() + kind[1:]
    return at("model.source", {"type": kind, **({} if kind == "HostPath" else {"hostPath": None}), name: member})


MAY_NOT_CHANGE = "may not change; create another MoEService"
HUB = source("HuggingFace", repo="a/b", revision="one", tokenSecretRef={"name": "token", "key": "one"})
row("model.source.type", source("Image", path="/models/demo"), refused=MAY_NOT_CHANGE)
row("model.source.huggingFace.repo", "a/c", before=HUB, refused=MAY_NOT_CHANGE)
for leaf in ("revision", "tokenSecretRef.name", "tokenSecretRef.key"):
    row(f"model.source.huggingFace.{leaf}", "two", BOTH | GATEWAY, HUB, needs_hub=True)
# The same weights at another place: the fake workers find the weights of one model everywhere.
CLAIM = source("PersistentVolumeClaim", claimName="models-one", path="demo")
row("model.source.persistentVolumeClaim.claimName", "models-two", BOTH | GATEWAY, CLAIM)
row("model.source.persistentVolumeClaim.path", "other", BOTH | GATEWAY, CLAIM)
row("model.source.image.path", "/models/other", BOTH | GATEWAY, source("Image", path="/models/demo"))
row("model.source.hostPath.path", "@other", BOTH | GATEWAY)  # edits_test.py knows the folder
row("model.name", "another", GATEWAY)
row("model.names", ["another", "org/another"], GATEWAY)
row("model.dtype", "Float32", BOTH)  # beside what serves, in another topology
row("model.maxModelLen", 512, ATTENTION)
# The model of these services is a folder of the node, which no cache holds.
CACHE = {"type": "PersistentVolumeClaim", "persistentVolumeClaim": {"claimName": "cache", "path": "below"}}
for leaf in ("type", "persistentVolumeClaim.claimName", "persistentVolumeClaim.path"):
    not_supported(f"model.cache.{leaf}", at("model.cache", CACHE))
# Below none of the operator's folders.
row("model.cache.node.path", at("model.cache", {"type": "Node", "node": {"path": "/cache"}}), stalled="InvalidSpec")

TARGETS = {"slo": {"tpot": {"targetMilliseconds": 50}, "ttft": {"targetMilliseconds": 500}}}
row("slo.tpot.targetMilliseconds", 60, EPOCH, TARGETS)
row("slo.tpot.percentile", "P99", NOTHING, TARGETS)
row("slo.ttft.targetMilliseconds", 600, NOTHING, TARGETS)
row("slo.ttft.percentile", "P99", NOTHING, TARGETS)

# If the field is removed, the pinned image stays (docs/design/006-one-control-plane.md).
row("image", "worker:2", BOTH)
row("imagePullSecrets", [{"name": "pull"}], BOTH | GATEWAY)
# What more pools move is in e2e/serving/pools_test.py.
not_supported("pools", 2, at("roles.attention", {"replicas": None, "scaling": {"mode": "External"}}))
row("device", "CPU", BOTH)
# Four of either device hold the experts of either model.
TIMED = {"device": "Timed", "timed": {"hardware": "H200", "model": "mixtral-8x22b"}} | at("roles.experts.replicas", 4)
for leaf, value in (("hardware", "H20"), ("model", "dbrx"), ("scale", 8), ("timeScale", 2)):
    row(f"timed.{leaf}", value, BOTH, TIMED)


def role_rows(role, pods):
    own = f"roles.{role}"
    outside = at(own, {"replicas": None, "scaling": {"mode": "External", "minReplicas": 1, "maxReplicas": 4}})
    more = {f"{role}+", "epoch", "budgets"}
    row(f"{own}.replicas", 2, more)
    row(f"{own}.scaling.mode", at(own, {"replicas": None, "scaling": {"mode": "External"}}), {"scalers"})
    row(f"{own}.scaling.minReplicas", 2, more, outside)
    row(f"{own}.scaling.maxReplicas", 3, NOTHING, outside)
    for way in ("scaleUp", "scaleDown"):
        for leaf, value in (("stabilizationWindowSeconds", 60), ("selectPolicy", "Min"),
                            ("policies", [{"type": "Pods", "value": 1, "periodSeconds": 60}])):
            row(f"{own}.scaling.behavior.{way}.{leaf}", value, NOTHING, at(own, {"replicas": None}) | TARGETS)
    row(f"{own}.instancesPerPod", 2, pods)
    not_supported(f"{own}.tensorParallel", 2)
    row(f"{own}.hardwareProfile", "h100", pods)
    row(f"{own}.resources.requests", {"cpu": "10m"}, pods)
    row(f"{own}.resources.limits", {"memory": "2Gi"}, pods)
    row(f"{own}.nodeSelector", {"pool": "rows"}, pods)
    row(f"{own}.tolerations", [{"key": "spot", "operator": "Exists"}], pods)
    row(f"{own}.schedulerName", "default-scheduler", pods)
    row(f"{own}.priorityClassName", "rows", pods)
    row(f"{own}.podTemplate", {"metadata": {"annotations": {"note": "one"}}}, pods)


role_rows("attention", ATTENTION)
role_rows("experts", EXPERTS)
row("roles.attention.maxBatchSize", 32, ATTENTION)
not_supported("roles.attention.kvCache.blockSize", 32)
row("roles.attention.kvCache.dtype", "FP8", BOTH)  # like model.dtype
row("roles.attention.kvCache.memoryPercent", 50, ATTENTION)
row("roles.attention.kvCache.size", "256Mi", ATTENTION)
row("roles.attention.kvCache.prefixCache", "Disabled", EPOCH)
not_supported("roles.attention.kvCache.prefixHostMemory", "1Gi")  # on CPUs
row("roles.experts.slotsPerInstance", 10, EPOCH)
row("roles.experts.spareSlots", 3, EPOCH)
PLACEMENT = "roles.experts.placement"
row(f"{PLACEMENT}.policy", "ActivationAware", NOTHING)
# Each instance needs a slot for every expert, since the other may be lost.
row(f"{PLACEMENT}.survivable", True, EPOCH, at("roles.experts.replicas", 2))
row(f"{PLACEMENT}.rebalanceIntervalSeconds", 60, NOTHING)
row(f"{PLACEMENT}.windowSeconds", 60, NOTHING)
row("roles.experts.scheduling", "AEBSGreedy", EPOCH)

row("exchange.mode", "TwoPhaseSingle", EPOCH, at("roles.experts.instancesPerPod", 2))
row("exchange.transport", "TCP", EPOCH)
row("exchange.compression", "FP8", BOTH)  # like model.dtype
row("exchange.gate", "Attention", EPOCH)
SUMS = at("exchange", {"sum": "FixedPoint", "sumExponents": [-20] * 4})
row("exchange.sum", SUMS, BOTH)  # like model.dtype
row("exchange.sumBits", 24, BOTH, SUMS)
row("exchange.sumExponents", [-19] * 4, BOTH, SUMS)
row("exchange.hostShared", True, stalled="InvalidSpec")  # the operator allows no folder for it
row("pipeline.microBatches", 2, EPOCH)
for bound in ("min", "max"):
    for leaf in ("experts", "attention"):
        row(f"ratio.{bound}.{leaf}", at(f"ratio.{bound}", {"experts": 1, "attention": 1}), NOTHING)
for leaf, value in (("intervalSeconds", 30), ("predictor", "EWMA"), ("maxGPUs", 8), ("advisory", True),
                    ("pendingTimeoutSeconds", 60)):
    row(f"scaling.{leaf}", value, NOTHING)
not_supported("scaling.maxPools", 2)  # the roles are not in mode SLO
row("scaling.standby", 1, {"attention+", "experts+"})
row("drain.timeoutSeconds", 60, BOTH | GATEWAY)
row("drain.withoutCapacity", "Shrink", NOTHING)
row("rollout.type", "Rolling", NOTHING)
row("rollout.drainSeconds", 60, NOTHING)

row("gateway.replicas", 2, GATEWAY | {"budgets"})  # evictions may then remove one
row("gateway.service.type", "NodePort", ENDPOINT)
row("gateway.service.port", 8080, ENDPOINT)
KEYS = at("gateway.apiKeysSecretRef", {"name": "keys", "key": "one"})
row("gateway.apiKeysSecretRef.name", "others", GATEWAY, KEYS)
row("gateway.apiKeysSecretRef.key", "two", GATEWAY, KEYS)
row("gateway.limits.queuedRequests", 100, EPOCH | GATEWAY)
row("gateway.limits.requestSize", "1Mi", GATEWAY)
row("gateway.limits.openStreams", 100, GATEWAY)
row("gateway.resources.requests", {"cpu": "10m"}, GATEWAY)
row("gateway.resources.limits", {"memory": "1Gi"}, GATEWAY)
row("gateway.podTemplate", {"metadata": {"annotations": {"note": "one"}}}, GATEWAY)

not_supported("security.tls", "Disabled")
row("security.networkPolicy", True, {"policies"})
row("paused", True, NOTHING)
row("suspend", True, {"attention-", "experts-", "budgets"})
