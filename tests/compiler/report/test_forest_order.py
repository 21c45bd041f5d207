from tests.support.report_pages import branch
from turnstile.compiler.report.forest_order import Branch, GroupForest, forests, parents_of


def test_each_sequence_stands_below_the_one_it_left() -> None:
    one = branch(1, [1, 2, 3])
    two = branch(2, [1, 5, 6])
    three = branch(3, [1, 2, 7, 8], one)
    four = branch(4, [1, 2, 7, 9, 9], three)
    five = branch(5, [1, 2, 9, 9], one)
    sequences = [one, two, three, four, five]
    parents = parents_of(sequences)
    assert parents == [None, None, 0, 2, 0]
    assert forests(sequences, parents) == [
        GroupForest("g", (Branch(0, 0), Branch(2, 1), Branch(3, 2), Branch(4, 1), Branch(1, 0)))
    ]


def test_groups_come_in_the_order_of_their_first_sequences() -> None:
    sequences = [
        branch(1, [1, 2], group_id="b"),
        branch(2, [1, 2], group_id="a"),
        branch(3, [1, 2], group_id="b"),
    ]
    found = forests(sequences, [None, None, None])
    assert [(group.group_id, [each.index for each in group.branches]) for group in found] == [
        ("b", [0, 2]),
        ("a", [1]),
    ]


def test_a_parent_that_does_not_stand_before_it_is_none() -> None:
    one = branch(1, [1, 2, 3])
    child = branch(2, [1, 2, 4, 5], one)
    assert parents_of([child, one]) == [None, None]


def test_a_chain_of_thousands_of_splits_is_walked() -> None:
    chain = [branch(0, [1, 2])]
    for number in range(1, 3000):
        chain.append(branch(number, [1, 2], chain[-1]))
    (group,) = forests(chain, parents_of(chain))
    assert group.branches[-1] == Branch(2999, 2999)
