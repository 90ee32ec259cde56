"""Make what a handler takes from JSON, strictly: another type or an unknown field is an InvalidInput."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import typing
from typing import Any, Callable, Dict, List, Tuple, Union

from .errors import InvalidInput

UNIONS = tuple(t for t in (Union, getattr(__import__("types"), "UnionType", None)) if t is not None)


class Binding:
    """Calls a handler with what it takes: nothing, its input, or its input and the step.

    The input is checked by the annotation of the first parameter; without one anything passes.
    """

    def __init__(self, name: str, handler: Callable[..., Any]) -> None:
        if not callable(handler):
            raise TypeError("handler %s: want a function, not %r" % (name, handler))
        self.handler = handler
        self.is_async = inspect.iscoroutinefunction(handler)
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        named = [p for p in inspect.signature(handler).parameters.values() if p.kind in kinds]
        self.count = len(named)
        if self.count > 2:
            raise TypeError("handler %s: want at most two parameters, the input and the step, not %d" % (name, self.count))
        self.type: Any = Any
        if named and named[0].annotation is not inspect.Parameter.empty:
            self.type = typing.get_type_hints(handler, include_extras=False).get(named[0].name, Any)

    def arguments(self, given: Any, step: Any) -> Tuple[Any, ...]:
        if self.count == 0:
            return ()
        value = make(self.type, given, "with")
        return (value,) if self.count == 1 else (value, step)


def make(kind: Any, value: Any, where: str) -> Any:
    """Return a value of JSON as one of a type."""
    if kind is Any or kind is object or isinstance(kind, typing.TypeVar):
        return value
    origin = typing.get_origin(kind)
    if origin in UNIONS:
        return make_union(typing.get_args(kind), value, where)
    if origin is typing.Literal:
        if any(value == v and type(value) is type(v) for v in typing.get_args(kind)):
            return value
        raise InvalidInput("%s: want one of %s, not %s" % (where, ", ".join(map(repr, typing.get_args(kind))), shown(value)))
    if origin is not None or kind in (list, dict, tuple, set):
        return make_collection(origin or kind, typing.get_args(kind), value, where)
    if dataclasses.is_dataclass(kind):
        return kind(**fields(hints_of(kind, where), required_of(kind), value, where))
    if typing_dict(kind):
        return fields(hints_of(kind, where), kind.__required_keys__, value, where)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        for member in kind:
            if member.value == value:
                return member
        raise InvalidInput("%s: want one of %s, not %s" % (where, ", ".join(repr(m.value) for m in kind), shown(value)))
    return make_plain(kind, value, where)


def make_plain(kind: Any, value: Any, where: str) -> Any:
    if kind is None or kind is type(None):
        ok = value is None
    elif kind is float:
        ok = isinstance(value, (int, float)) and not isinstance(value, bool)
    elif kind is int:
        ok = isinstance(value, int) and not isinstance(value, bool)
    elif kind in (str, bool):
        ok = isinstance(value, kind)
    else:
        raise TypeError("%s: %r is not a type that an input can have" % (where, kind))
    if not ok:
        raise InvalidInput("%s: want %s, not %s" % (where, "null" if kind in (None, type(None)) else kind.__name__, shown(value)))
    return float(value) if kind is float else value


def make_union(kinds: Tuple[Any, ...], value: Any, where: str) -> Any:
    faults: List[str] = []
    for kind in kinds:
        try:
            return make(kind, value, where)
        except InvalidInput as e:
            faults.append(str(e))
    raise InvalidInput(faults[0] if value is not None and len(faults) == 2 and type(None) in kinds else "; or ".join(faults))


def make_collection(origin: Any, args: Tuple[Any, ...], value: Any, where: str) -> Any:
    if issubclass(origin, typing.cast(type, typing.get_origin(typing.Mapping[str, Any]))):
        if not isinstance(value, dict):
            raise InvalidInput("%s: want an object, not %s" % (where, shown(value)))
        kind = args[1] if len(args) == 2 else Any
        return {k: make(kind, v, "%s.%s" % (where, k)) for k, v in value.items()}
    if not isinstance(value, list):
        raise InvalidInput("%s: want a list, not %s" % (where, shown(value)))
    if origin is tuple and args and args[-1] is not Ellipsis:
        if len(args) != len(value):
            raise InvalidInput("%s: want a list of %d, not of %d" % (where, len(args), len(value)))
        return tuple(make(k, v, "%s[%d]" % (where, i)) for i, (k, v) in enumerate(zip(args, value)))
    made = [make(args[0] if args else Any, v, "%s[%d]" % (where, i)) for i, v in enumerate(value)]
    return origin(made) if origin in (tuple, set, frozenset) else made


def typing_dict(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, dict) and hasattr(kind, "__required_keys__")


def hints_of(kind: Any, where: str) -> Dict[str, Any]:
    try:
        return typing.get_type_hints(kind)
    except NameError as e:
        raise TypeError("%s: the annotations of %s: %s" % (where, kind.__name__, e)) from None


def required_of(kind: Any) -> List[str]:
    missing = dataclasses.MISSING
    return [f.name for f in dataclasses.fields(kind) if f.init and f.default is missing and f.default_factory is missing]


def fields(hints: Dict[str, Any], required: Any, value: Any, where: str) -> Dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput("%s: want an object, not %s" % (where, shown(value)))
    for name in value:
        if name not in hints:
            raise InvalidInput("%s.%s: unknown field: want %s" % (where, name, ", ".join(sorted(hints)) or "none"))
    for name in required:
        if name not in value:
            raise InvalidInput("%s.%s: missing" % (where, name))
    return {name: make(hints[name], v, "%s.%s" % (where, name)) for name, v in value.items()}


def shown(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    text = {None: "null", True: "true", False: "false"}.get(value) if value is None or isinstance(value, bool) else repr(value)
    return text if text is not None and len(text) <= 200 else str(text)[:200] + "..."
