import enum
import unittest
from dataclasses import dataclass, field
from typing import Any, Dict, List, Literal, Optional, Tuple, TypedDict, Union

from pawl.errors import InvalidInput
from pawl.inputs import Binding, make


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: float = 0.0
    tags: List[str] = field(default_factory=list)


class Query(TypedDict):
    where: Point
    limit: Optional[int]


class MakeTest(unittest.TestCase):
    def test_what_is_taken(self) -> None:
        for kind, value, want in [
            (Any, {"a": 1}, {"a": 1}),
            (int, 10 ** 30, 10 ** 30),
            (float, 1, 1.0),
            (str, "a", "a"),
            (bool, True, True),
            (type(None), None, None),
            (Optional[int], None, None),
            (Union[int, str], "a", "a"),
            (list, [1, "a"], [1, "a"]),
            (List[int], [1, 2], [1, 2]),
            (Dict[str, float], {"a": 1}, {"a": 1.0}),
            (dict, {"a": 1}, {"a": 1}),
            (Tuple[int, str], [1, "a"], (1, "a")),
            (Tuple[int, ...], [1, 2], (1, 2)),
            (Literal["a", 1], 1, 1),
            (Colour, "red", Colour.RED),
            (Point, {"x": 1}, Point(1)),
            (Point, {"x": 1, "y": 2, "tags": ["a"]}, Point(1, 2.0, ["a"])),
            (Query, {"where": {"x": 1}, "limit": None}, {"where": Point(1), "limit": None}),
        ]:
            with self.subTest(kind=kind, value=value):
                got = make(kind, value, "with")
                self.assertEqual((got, type(got)), (want, type(want)))

    def test_what_is_refused(self) -> None:
        for kind, value, want in [
            (int, True, "with: want int, not true"),
            (int, 1.5, "with: want int, not 1.5"),
            (float, False, "with: want float, not false"),
            (str, None, "with: want str, not null"),
            (bool, 1, "with: want bool, not 1"),
            (Optional[int], "a", "with: want int, not 'a'"),
            (Union[int, str], 1.5, "with: want int, not 1.5; or with: want str, not 1.5"),
            (List[int], {"a": 1}, "with: want a list, not an object"),
            (List[int], [1, "a"], "with[1]: want int, not 'a'"),
            (Dict[str, int], {"a": "b"}, "with.a: want int, not 'b'"),
            (Dict[str, int], [1], "with: want an object, not a list"),
            (Tuple[int, str], [1], "with: want a list of 2, not of 1"),
            (Literal["a", 1], True, "with: want one of 'a', 1, not true"),
            (Colour, "blue", "with: want one of 'red', not 'blue'"),
            (Point, {}, "with.x: missing"),
            (Point, {"x": 1, "z": 2}, "with.z: unknown field: want tags, x, y"),
            (Point, 7, "with: want an object, not 7"),
            (Query, {"where": {"x": "1"}, "limit": 1}, "with.where.x: want int, not '1'"),
            (str, ["a" * 300], "with: want str, not a list"),
        ]:
            with self.subTest(kind=kind, value=value):
                with self.assertRaises(InvalidInput) as caught:
                    make(kind, value, "with")
                self.assertEqual(str(caught.exception), want)

    def test_parameters(self) -> None:
        self.assertEqual(Binding("a", lambda: 1).arguments({"x": 1}, "step"), ())
        self.assertEqual(Binding("a", lambda given: 1).arguments({"x": 1}, "step"), ({"x": 1},))
        self.assertEqual(Binding("a", lambda given, step: 1).arguments(None, "step"), (None, "step"))
        with self.assertRaisesRegex(TypeError, "want at most two parameters"):
            Binding("a", lambda a, b, c: 1)
        with self.assertRaisesRegex(TypeError, "want a function"):
            Binding("a", 7)  # type: ignore[arg-type]

        def handler(p: Point, *, later: int = 1) -> None:
            pass

        self.assertEqual(Binding("a", handler).arguments({"x": 1}, None), (Point(1),))


if __name__ == "__main__":
    unittest.main()
