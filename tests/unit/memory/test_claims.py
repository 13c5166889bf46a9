"""One writer for each target topic, and no circles."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from isthmus.memory.claims import Claim, Claims, Outflow, ToldClaims
from isthmus.model.namespace import NamespaceMap, NamespaceNaming
from isthmus.model.naming import SourceTopic, TargetTopic


def claim(link: str, source: str, target: str, topic: str = "orders", copy: str = "") -> Claim:
    """A claim by short names; the topic is called the same at both sides unless the `copy` has a name."""
    return Claim(
        link=link,
        source_topic=SourceTopic(topic),
        target_topic=TargetTopic(copy or topic),
        source_id=source,
        target_id=target,
    )


def test_second_link_into_the_same_topic_is_refused() -> None:
    """The earlier link keeps the topic, however often either asks."""
    claims = Claims()
    for _ in range(2):
        assert claims.grant(claim("one", "a", "c")) is None
        problem = claims.grant(claim("two", "b", "c"))
        assert problem is not None
        assert "link one" in problem.message
    assert claims.grant(claim("two", "b", "c", topic="bills")) is None


def test_way_back_is_refused() -> None:
    """A topic mirrored from a to b is not mirrored from b to a."""
    claims = Claims()
    assert claims.grant(claim("there", "a", "b")) is None
    problem = claims.grant(claim("back", "b", "a"))
    assert problem is not None
    assert "circle" in problem.message
    assert "there" in problem.message


def test_longer_circle_is_refused_and_names_its_links() -> None:
    """The link that would close a circle of three is the one refused."""
    claims = Claims()
    assert claims.grant(claim("ab", "a", "b")) is None
    assert claims.grant(claim("bc", "b", "c")) is None
    problem = claims.grant(claim("ca", "c", "a"))
    assert problem is not None
    assert "ab, bc" in problem.message


def heard(claims: Claims, *others: Claim) -> None:
    """Links that others run, or that rest, have these claims now and no other."""
    for cluster in "abcdexyz":
        there = tuple(one for one in others if one.target_id == cluster)
        claims.hear(ToldClaims(cluster, lambda _: True, there))


clusters = st.sampled_from("abcde")


@given(st.lists(st.tuples(clusters, clusters).filter(lambda pair: pair[0] != pair[1])))
def test_granted_claims_form_a_forest(pairs: list[tuple[str, str]]) -> None:
    """Whatever is asked in whatever order, each cluster has one writer and no topic comes back."""
    claims, parent = Claims(), {}
    for index, (source, target) in enumerate(pairs):
        if claims.grant(claim(str(index), source, target)) is None:
            assert target not in parent
            parent[target] = source
    for start in parent:
        seen, cluster = set(), start
        while cluster in parent:
            assert cluster not in seen
            seen.add(cluster)
            cluster = parent[cluster]


def mapped(link: str, source: str, target: str, source_topic: str = "orders", topic: str = "orders") -> Claim:
    """A claim of a link that maps offsets."""
    return Claim(
        link=link,
        source_topic=SourceTopic(source_topic),
        target_topic=TargetTopic(topic),
        source_id=source,
        target_id=target,
        is_mapped=True,
    )


def test_links_that_map_offsets_share_a_topic() -> None:
    """Among themselves only: who keeps offsets is alone, whoever came first."""
    claims = Claims()
    assert claims.grant(mapped("one", "a", "c")) is None
    assert claims.grant(mapped("two", "b", "c")) is None
    assert claims.grant(claim("three", "d", "c")) is not None
    assert claims.grant(mapped("one", "a", "c")) is None
    alone = Claims()
    assert alone.grant(claim("one", "a", "c")) is None
    assert alone.grant(mapped("two", "b", "c")) is not None


def test_circles_are_found_on_every_way() -> None:
    """Where a topic comes from several sources, each of them is followed."""
    claims = Claims()
    for granted in (mapped("xa", "x", "a"), mapped("ya", "y", "a"), mapped("zy", "z", "y")):
        assert claims.grant(granted) is None
    problem = claims.grant(mapped("az", "a", "z"))
    assert problem is not None
    assert "circle with zy, ya" in problem.message


def test_a_circle_under_other_names_is_one() -> None:
    """What goes there as one name and back as another goes round all the same, longer each time."""
    claims = Claims()
    assert claims.grant(mapped("ab", "a", "b", "orders", "a.orders")) is None
    problem = claims.grant(mapped("ba", "b", "a", "a.orders", "orders"))
    assert problem is not None
    assert "circle with ab" in problem.message


def test_what_rests_is_in_nobodys_way() -> None:
    """A link that is not run keeps no other from writing its topic, nor from turning a mirror round."""
    claims = Claims()
    resting = replace(claim("old", "a", "b"), is_resting=True)
    heard(claims, resting)
    assert claims.grant(claim("new", "c", "b")) is None
    assert claims.grant(claim("back", "b", "a", topic="orders")) is None


def test_mapped_records_do_not_come_back_by_a_link_that_rests() -> None:
    """They would be there twice: what a mapped link wrote counts until it is forgotten."""
    claims = Claims()
    heard(claims, *(replace(each, is_resting=True) for each in (mapped("ab", "a", "b"), mapped("bc", "b", "c"))))
    problem = claims.grant(mapped("ca", "c", "a"))
    assert problem is not None
    assert "ab, bc" in problem.message
    assert "isthmus forget ab" in problem.hint


def test_what_rests_is_part_of_a_circle_that_ends_under_another_name() -> None:
    """However long the circle is, and whatever the way of the names: only what comes back into its own topic is a
    mirror that is turned round.
    """
    there = replace(claim("there", "a", "b", copy="x.orders"), is_resting=True)
    on = replace(claim("on", "b", "c", "x.orders", "y.orders"), is_resting=True)
    for others, source, topic in (([there], "b", "x.orders"), ([there, on], "c", "y.orders")):
        claims = Claims()
        heard(claims, *others)
        assert claims.grant(claim("home", source, "a", topic, "orders")) is None
        problem = claims.grant(claim("back", source, "a", topic, f"b.{topic}"))
        assert problem is not None
        assert f"circle with {', '.join(one.link for one in others)}" in problem.message
        assert "isthmus forget there" in problem.hint


def test_a_link_that_ran_is_waited_for_while_it_is_silent() -> None:
    """An outage turns no mirror round: who was refused begins when the other one is forgotten, or in a new run."""
    there, back = claim("there", "a", "b"), claim("back", "b", "a")
    silent = replace(there, is_resting=True)
    claims = Claims()
    heard(claims, there)
    assert claims.grant(back) is not None
    heard(claims, silent)
    problem = claims.grant(back)
    assert problem is not None
    assert "run back again" in problem.hint
    assert claims.grant(claim("bills", "b", "a", "bills")) is None
    heard(claims)
    assert claims.grant(back) is None
    heard(claims, silent)
    assert claims.settle("back", back.target_topic, is_wanted=True).problem is None

    claims = Claims()
    heard(claims, there)
    assert claims.grant(back) is not None
    claims.release_all("back")
    heard(claims, silent)
    assert claims.grant(back) is None


def test_of_two_that_were_refused_to_each_other_one_begins() -> None:
    """A link that runs and does not write the topic is not waited for."""
    claims, back = Claims(), claim("back", "b", "a")
    heard(claims, claim("there", "a", "b"))
    assert claims.grant(back) is not None
    heard(claims, replace(claim("there", "a", "b"), is_resting=True, is_refused=True))
    assert claims.grant(back) is None


def test_a_link_that_rests_hides_none_that_runs_on_the_same_way() -> None:
    """Of two links that bring a topic from the same place the running one closes the circle."""
    for first, last in (("old", "new"), ("new", "old")):
        claims = Claims()
        bring = {"old": replace(claim("old", "b", "c"), is_resting=True), "new": claim("new", "b", "c")}
        heard(claims, bring[first], bring[last], claim("there", "a", "b"))
        problem = claims.grant(claim("back", "c", "a"))
        assert problem is not None
        assert "circle with there, new" in problem.message


def test_a_link_that_runs_again_rests_no_more() -> None:
    """Once it has the topic again it has it as any other link."""
    claims = Claims()
    heard(claims, replace(mapped("ab", "a", "b"), is_resting=True))
    assert claims.grant(mapped("ab", "a", "b")) is None
    assert claims.grant(mapped("ba", "b", "a")) is not None


def test_distributors_of_a_tree_share_its_topics_in_circles() -> None:
    """Copy flags end their circles; a link that mirrors may not write there, nor one of another tree."""
    claims = Claims()
    for link, source, target in (("t.a.1", "a", "b"), ("t.b.1", "b", "a"), ("t.c.1", "c", "a"), ("t.a.2", "a", "c")):
        assert claims.grant(replace(claim(link, source, target), is_mapped=True, tree="t")) is None
    for link, tree in (("mirror", ""), ("u.d.1", "u")):
        problem = claims.grant(replace(claim(link, "d", "a"), is_mapped=True, tree=tree))
        assert problem is not None
        assert "one of tree t" in problem.message
    # A mirror may read what a tree distributes, and go on from there.
    assert claims.grant(claim("out", "a", "z")) is None
    back = claims.grant(replace(claim("in", "z", "b", topic="other"), is_mapped=True))
    assert back is None


def test_what_others_say_counts_as_they_say_it_now() -> None:
    """A topic that another controller's link writes is left to it, until it says that it does so no more."""
    claims = Claims()
    heard(claims, claim("other", "a", "b"))
    assert claims.grant(claim("own", "c", "b")) is not None
    # Of topics that were not looked for nothing new is known.
    claims.hear(ToldClaims("b", lambda topic: topic == "bills", ()))
    assert claims.grant(claim("own", "c", "b")) is not None
    heard(claims)
    assert claims.grant(claim("own", "c", "b")) is None


def test_of_two_that_want_a_topic_at_once_one_goes_on() -> None:
    """Whoever is later by name gives way as soon as it has heard the other; that one waits for as long, and then holds
    the topic whatever others want.
    """
    first, last = claim("first", "a", "b"), claim("last", "b", "a")
    for own, other in ((first, last), (last, first)):
        claims = Claims()
        assert claims.grant(own) is None
        heard(claims, replace(other, is_wanted=True))
        settled = claims.settle(own.link, own.target_topic, is_wanted=True)
        assert settled.problem is not None
        assert settled.waits == (own is first)
        assert not claims.is_held(own.link, own.target_topic)
        heard(claims)
        assert claims.settle(own.link, own.target_topic, is_wanted=True).problem is None
        heard(claims, replace(other, is_wanted=True))
        assert claims.is_held(own.link, own.target_topic)
        assert claims.grant(own) is None


def test_what_others_have_begun_is_theirs() -> None:
    """Nobody who wants a topic goes on or waits once another one writes it; nor does one that begins again."""
    for is_wanted in (True, False):
        claims = Claims()
        assert claims.grant(claim("own", "a", "b")) is None
        heard(claims, claim("other", "b", "a"))
        settled = claims.settle("own", TargetTopic("orders"), is_wanted=is_wanted)
        assert settled.problem is not None
        assert not settled.waits


def test_who_had_begun_a_topic_waits_for_whoever_only_wants_it() -> None:
    """Whoever is later by name: the other one hears of it, and gives way."""
    for own, other in (("first", "last"), ("last", "first")):
        claims = Claims()
        assert claims.grant(claim(own, "a", "b")) is None
        heard(claims, replace(claim(other, "b", "a"), is_wanted=True))
        assert claims.settle(own, TargetTopic("orders"), is_wanted=False).waits


def test_a_link_of_the_same_name_into_another_cluster_is_another() -> None:
    """Two files may call their links alike: both directions under one name are a circle all the same."""
    claims = Claims()
    heard(claims, claim("mirror", "a", "b"))
    problem = claims.grant(claim("mirror", "b", "a"))
    assert problem is not None
    assert "circle" in problem.message


@given(st.lists(st.integers(0, 2), max_size=60))
def test_no_circle_closes_however_controllers_take_turns(turns: list[int]) -> None:
    """Three controllers of a ring say what they want, hear, and go on or give way, in any order: in the end all but one
    of them copy, and at no time all.
    """
    ring = [mapped("p", "a", "b"), mapped("q", "b", "c"), mapped("r", "c", "a")]
    ledger: dict[str, Claim] = {}
    own = [Claims() for _ in ring]
    copying: set[str] = set()
    for index in (*turns, *range(3), *range(3), *range(3), *range(3)):
        mine, claims = ring[index], own[index]
        if mine.link in copying:
            ledger[mine.link] = mine
            continue
        if mine.link not in ledger:
            heard(claims, *(one for one in ledger.values() if one.link != mine.link))
            if claims.grant(mine) is None:
                ledger[mine.link] = replace(mine, is_wanted=True)
            continue
        heard(claims, *(one for one in ledger.values() if one.link != mine.link))
        settled = claims.settle(mine.link, mine.target_topic, is_wanted=True)
        if settled.problem is None:
            copying.add(mine.link)
        elif not settled.waits:
            claims.release(mine.link, mine.target_topic)
            del ledger[mine.link]
    assert len(copying) == len(ring) - 1


def test_topics_from_clusters_that_were_not_heard_are_told() -> None:
    """However long the way to them is; of links that rest, and of clusters whose ledgers are read, there is nothing to
    say.
    """
    claims = Claims()
    claims.hear(
        ToldClaims("b", lambda _: True, (claim("there", "a", "b"), replace(claim("old", "q", "b"), is_resting=True)))
    )
    assert claims.grant(claim("own", "b", "c")) is None
    assert [one.link for one in claims.unseen("own", TargetTopic("orders"))] == ["there"]
    claims.hear(ToldClaims("a", lambda _: True, (claim("before", "z", "a"),)))
    assert [one.source_id for one in claims.unseen("own", TargetTopic("orders"))] == ["z"]
    claims.hear(ToldClaims("z", lambda _: True, ()))
    assert claims.unseen("own", TargetTopic("orders")) == []


def test_a_circle_through_a_cluster_that_was_not_heard_is_refused_where_it_is_declared() -> None:
    """The ledger of the target has the link that leads out of it too; what is not in its namespaces is only told of.
    Once the cluster is heard, what is written there counts alone.
    """
    out = Outflow("out", "c", "x", NamespaceNaming((NamespaceMap.parse("orders-:orders-"),)))
    claims, topic = Claims(), "orders-1"
    claims.hear(ToldClaims("b", lambda _: True, (claim("in", "x", "b", topic), claim("bills", "x", "b", "bills"))))
    claims.hear(ToldClaims("c", lambda _: True, (), (out,)))
    problem = claims.grant(claim("own", "b", "c", topic))
    assert problem is not None
    assert "in a circle with out, in" in problem.message
    assert "Of out only the declaration is known here" in problem.hint
    assert claims.grant(claim("own", "b", "c", "bills")) is None
    assert [one.link for one in claims.unseen("own", TargetTopic("bills"))] == ["bills"]
    claims.hear(ToldClaims("x", lambda _: True, ()))
    assert claims.grant(claim("own", "b", "c", topic)) is None
