"""The gateway learns committed topologies from any member and follows them."""

import signal

import pytest

from conftest import wait_until

EPOCH = "janus_gateway_topology_epoch"
ATTACHED = "janus_gateway_attention_instances"


def stream(gateway, tokens=400):
    """A stream after its first token, and the text so far."""
    answer = gateway.client().completions.create(
        model="tiny", prompt="abc", temperature=0, max_tokens=tokens, stream=True,
        extra_body={"ignore_eos": True})
    return answer, next(iter(answer)).choices[0].text


def ask(gateway, prompt="It is", tokens=None):
    options = {"max_tokens": tokens, "extra_body": {"ignore_eos": True}} if tokens else {}
    return gateway.client().completions.create(
        model="tiny", prompt=prompt, temperature=0, **options)


def test_a_new_instance_is_attached(start):
    first, second = start.scripted(), start.scripted()
    gateway = start.gateway([first])
    assert gateway.metric(EPOCH) == 1
    start.commit([first, second])
    wait_until(lambda: gateway.metric(ATTACHED) == 2, "the second instance")
    assert gateway.metric(EPOCH) == 2
    first.stop(signal.SIGKILL)
    wait_until(lambda: gateway.metric(ATTACHED) == 1, "the loss")
    assert ask(gateway).choices[0].text == "It is"
    assert 'epoch=2 attention=2' in gateway.errors()


def test_an_instance_that_left_finishes_what_it_has_and_gets_nothing_new(start):
    leaver, stayer = start.held(), start.scripted()
    gateway = start.gateway([leaver])
    running, text = stream(gateway)
    start.commit([stayer])
    wait_until(lambda: gateway.metric(ATTACHED) == 2, "both")
    for _ in range(3):
        assert ask(gateway).choices[0].text == "It is"
    assert len(stayer.wait_for("submit", 3)) == 3 and len(leaver.wait_for("submit")) == 1
    leaver.release()
    text += "".join(chunk.choices[0].text for chunk in running)
    assert text == ask(gateway, "abc", 400).choices[0].text, "no token lost or repeated"
    wait_until(lambda: gateway.metric(ATTACHED) == 1, "the leaver's end")
    assert not leaver.events("cancel")


def test_the_next_member_is_asked_when_the_first_has_gone(start):
    first, second, third = (start.scripted() for _ in range(3))
    gateway = start.gateway([first, second])
    first.stop(signal.SIGKILL)
    second_known = gateway.metric(EPOCH)
    start.commit([second, third])
    wait_until(lambda: gateway.metric(EPOCH) == second_known + 1, "the new epoch")
    wait_until(lambda: gateway.metric(ATTACHED) == 2, "the third")


def test_members_learned_from_a_topology_are_asked_when_those_of_the_flags_are_gone(start):
    first, second = start.scripted(), start.scripted()
    gateway = start.gateway([first])
    start.commit([second])
    wait_until(lambda: gateway.metric(ATTACHED) == 1 and gateway.metric(EPOCH) == 2, "the second")
    first.stop(signal.SIGKILL)
    third = start.scripted()
    start.commit([second, third])
    wait_until(lambda: gateway.metric(ATTACHED) == 2, "the third")


def test_a_member_without_a_topology_is_passed_over(start):
    fresh, old = start.scripted(topology=start.folder / "none"), start.scripted()
    start.commit([old])
    gateway = start.gateway([fresh, old], attached=2)
    assert ask(gateway).choices[0].text == "It is"


def test_an_old_topology_changes_nothing(start):
    behind = start.scripted(topology=start.folder / "old")
    ahead = start.scripted()
    start.commit([behind], epoch=3, file=start.folder / "old")
    start.epoch = 6
    gateway = start.gateway([ahead, behind])  # commits epoch 7
    ahead.stop(signal.SIGKILL)
    wait_until(lambda: "reports an old topology" in gateway.errors(), "the answer of the one behind")
    assert gateway.metric(EPOCH) == 7
    assert ask(gateway).choices[0].text == "It is"


def test_a_topology_of_nobody_hides_none_that_follows(start):
    wild = start.scripted(topology=start.folder / "wild")
    own = start.scripted()
    start.commit([], epoch=2**64 - 1, file=start.folder / "wild")
    start.epoch = 6
    gateway = start.gateway([own, wild])  # commits epoch 7
    own.stop(signal.SIGKILL)
    wait_until(lambda: "has no attention instances" in gateway.errors(), "the wild one's answer")
    assert gateway.metric(EPOCH) == 7
    assert ask(gateway).choices[0].text == "It is"


def test_another_services_member_is_not_believed(start):
    other, own = start.scripted("--service-uid", "other"), start.scripted()
    start.commit([other])
    gateway = start.gateway([other, own], attached=2)
    assert gateway.metric(EPOCH) == 2


def of_pool(start, pool):
    """A worker of that pool, with topologies of its own."""
    return start.scripted("--pool", str(pool), topology=start.folder / f"pool-{pool}")


def pools(start, *flags, **options):
    """A gateway that finds the workers at 1.sock and 2.sock of pools 1 and 2."""
    return start.gateway([f"unix:{start.folder}/{{pool}}.sock"], "--pools", "2", *flags, **options)


def test_requests_go_to_the_instances_of_all_pools(start):
    start.scripted()  # at 0.sock, of no pool
    workers = [of_pool(start, 1), of_pool(start, 2)]
    for pool, worker in enumerate(workers, 1):
        start.commit([worker], epoch=10 * pool, file=start.folder / f"pool-{pool}")
    gateway = pools(start, attached=2)
    wait_until(lambda: gateway.metric("janus_gateway_pools") == 2, "both pools")
    assert gateway.metric(EPOCH) == 20
    taken = lambda: [len(worker.events("submit")) for worker in workers]  # noqa: E731
    running = []
    for count in range(1, 5):  # one after another: requests that come together do not see each other's load
        running.append(stream(gateway))
        wait_until(lambda: sum(taken()) == count, "the request's arrival")  # noqa: B023
    # Load is counted in tokens, so the shares depend on how far the streams are.
    assert min(taken()) >= 1, "a pool with less load has no share"
    del running


def test_an_older_epoch_number_of_another_pool_hides_nothing(start):
    start.scripted()
    first, second = of_pool(start, 1), of_pool(start, 2)
    start.commit([first], epoch=50, file=start.folder / "pool-1")
    gateway = pools(start, attached=1)
    start.commit([second], epoch=3, file=start.folder / "pool-2")
    wait_until(lambda: gateway.metric(ATTACHED) == 2, "the second pool")


def test_a_member_of_another_pool_is_not_believed(start):
    start.scripted()
    stray = start.scripted("--pool", "2", topology=start.folder / "pool-2")  # at 1.sock
    own = of_pool(start, 2)
    start.commit([stray, own], epoch=7, file=start.folder / "pool-2")
    gateway = pools(start, attached=2)
    assert gateway.metric("janus_gateway_pools") == 1


def test_a_pool_of_which_no_member_answers_is_forgotten_until_one_does(start):
    start.scripted()
    first, second = of_pool(start, 1), of_pool(start, 2)
    start.commit([first], file=start.folder / "pool-1")
    start.commit([second], file=start.folder / "pool-2")
    gateway = pools(start, "--forget-pool-seconds", "1", attached=2)
    second.stop(signal.SIGKILL)
    wait_until(lambda: gateway.metric("janus_gateway_pools") == 1, "the pool to be forgotten")
    assert ask(gateway).choices[0].text == "It is"
    (start.folder / "2.sock").unlink(missing_ok=True)
    start.scripted("--pool", "2", topology=start.folder / "pool-2",
                   at=f"unix:{start.folder}/2.sock")
    wait_until(lambda: gateway.metric("janus_gateway_pools") == 2, "the pool again, in the same epoch")
    wait_until(lambda: gateway.metric(ATTACHED) == 2, "its instance")


@pytest.mark.parametrize("count", [0, 1])
def test_a_gateway_that_finds_no_topology_ends_when_told(start, count):
    workers = [start.scripted(topology=start.folder / "none") for _ in range(count)]
    gateway = start.gateway([*workers, f"unix:{start.folder}/nobody.sock"], attached=0)
    assert gateway.metric(EPOCH) == 0
    assert gateway.post({"model": "tiny", "prompt": "x"}).status_code == 503
