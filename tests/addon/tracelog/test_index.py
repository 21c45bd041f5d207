from array import array

from turnstile.addon.tracelog.index import Index


def test_index_comes_back_from_its_record() -> None:
    index = Index(
        blobs={b"s" * 32: 7}, backends=array("Q", [3]), rewards=array("Q", [9]), groups=array("Q", [8])
    )
    index.add_exchange("g", 10)
    index.add_exchange("h", 20)
    index.add_exchange("g", 30)
    again = Index.from_record(index.as_record())
    assert again == index
    assert again.exchanges == {"g": array("Q", [10, 30]), "h": array("Q", [20])}


def test_offsets_are_in_file_order() -> None:
    index = Index()
    for group, offset in (("g", 30), ("h", 20), ("g", 40)):
        index.add_exchange(group, offset)
    assert index.exchange_offsets() == [20, 30, 40]
    assert index.exchange_offsets("g") == [30, 40]
    assert index.exchange_offsets("absent") == []


def test_the_last_backend_before_an_offset_is_found() -> None:
    index = Index(backends=array("Q", [10, 20]))
    assert [index.backend_before(offset) for offset in (5, 10, 11, 20, 21)] == [None, None, 10, 10, 20]


def test_what_lies_behind_a_cut_is_forgotten() -> None:
    index = Index(
        {"g": array("Q", [10, 30]), "h": array("Q", [40])}, {b"a": 5, b"b": 35}, array("Q", [20, 30])
    )
    index.cut(30)
    assert index == Index({"g": array("Q", [10])}, {b"a": 5}, array("Q", [20]))
