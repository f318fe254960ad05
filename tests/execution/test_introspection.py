from __future__ import annotations

import ast
import collections
import datetime
import enum
import fractions
import importlib.util
import json
import pathlib
import sys
import threading
import types
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.manager import start_new_async_kernel

from jupyter_collaboration_mcp.execution import in_kernel, introspection
from jupyter_collaboration_mcp.execution.in_kernel.brief import SHAPED
from jupyter_collaboration_mcp.execution.in_kernel.frames import DESCRIBERS
from jupyter_collaboration_mcp.execution.introspection import (
    KEY,
    Inspection,
    InspectionFailed,
    Variable,
)
from tests.harness.growth import calls, growth

pytestmark = pytest.mark.anyio


class Kernel:
    """A real kernel, and all that it said to a request."""

    def __init__(self, client: AsyncKernelClient) -> None:
        self.client = client
        #: Messages on the iopub channel that belong to the last request, but for its status.
        self.said: list[dict[str, Any]] = []

    async def run(self, code: str, **options: Any) -> dict[str, Any]:
        with anyio.fail_after(30):
            request = self.client.execute(code, **options)
            reply = await self._next(self.client.get_shell_msg, request)
            self.said = []
            while True:
                message = await self._next(self.client.get_iopub_msg, request)
                if message["msg_type"] != "status":
                    self.said.append(message)
                elif message["content"]["execution_state"] == "idle":
                    content: dict[str, Any] = reply["content"]
                    return content

    async def value(self, code: str) -> Any:
        """What an expression is, asked for in the same traceless way."""
        reply = await self.run("", silent=True, user_expressions={"value": code})
        answer = reply["user_expressions"]["value"]
        assert answer["status"] == "ok", answer
        return ast.literal_eval(answer["data"]["text/plain"])

    async def inspect(self, names: list[str] | None = None, most: int = 50) -> Inspection:
        asked = {KEY: introspection.expression(names, most, 300)}
        reply = await self.run("", silent=True, store_history=False, user_expressions=asked)
        return introspection.parse(reply)

    async def _next(self, get: Any, request: str) -> dict[str, Any]:
        while True:
            message: dict[str, Any] = await get(timeout=30)
            if message["parent_header"].get("msg_id") == request:
                return message


@asynccontextmanager
async def running_kernel() -> AsyncIterator[Kernel]:
    manager, client = await start_new_async_kernel()
    try:
        yield Kernel(client)
    finally:
        client.stop_channels()
        await manager.shutdown_kernel(now=True)


@pytest.fixture(scope="module")
async def kernel(anyio_backend: str) -> AsyncIterator[Kernel]:
    async with running_kernel() as kernel:
        yield kernel


@pytest.fixture
async def clean(kernel: Kernel) -> Kernel:
    await kernel.run("%reset -f", store_history=False)
    return kernel


def by_name(inspection: Inspection) -> dict[str, Variable]:
    return {variable.name: variable for variable in inspection.variables}


# In a live kernel

CELLS = '''
import math
from typing import Optional
from dataclasses import dataclass

def area(radius, *, digits=2):
    """Of a circle.

    In the unit of the radius, squared."""
    return round(math.pi * radius**2, digits)

@dataclass
class Point:
    x: int
    y: int = 0

_private = 1
count, ratio, name, missing = 3, 0.5, "Ada", None
scores = {"ada": [1, 2, 3], "bob": []}
point = Point(1)
'''


async def test_the_users_variables_are_listed_data_before_definitions(clean: Kernel) -> None:
    await clean.run(CELLS)
    inspection = await clean.inspect()
    assert [(v.name, v.type, v.size, v.preview) for v in inspection.variables] == [
        ("count", "int", None, "3"),
        ("ratio", "float", None, "0.5"),
        ("name", "str", "3 characters", "'Ada'"),
        ("missing", "NoneType", None, "None"),
        ("scores", "dict", "2 items", "{'ada': [1, 2, 3], 'bob': []}"),
        ("point", "Point", None, "<Point> with x, y"),
        ("area", "function", None, "area(radius, *, digits=2): Of a circle."),
        ("Point", "type", None, "class Point, made by Point(x, y=0): Point(x: int, y: int = 0)"),
    ]
    assert inspection.missing == []
    assert inspection.more == 0


async def test_an_inspection_leaves_no_trace(kernel: Kernel) -> None:
    await kernel.run(CELLS + "\n6 * 7")
    traces = (
        "(sorted(globals()), sorted(Out), len(In), In[-1], _, __, _i, _ii, "
        "get_ipython().execution_count)"
    )
    before = await kernel.value(traces)
    modules = set(await kernel.value("sorted(__import__('sys').modules)"))
    count = (await kernel.run("6 * 7"))["execution_count"]
    now = await kernel.value(traces)
    assert now[3:5] == ("6 * 7", 42)

    for names in (None, ["scores", "nothing", "area"]):
        await kernel.inspect(names)
        assert kernel.said == []

    assert await kernel.value(traces) == now
    assert set(now[0]) - set(before[0]) <= {f"_i{count}", f"_{count}"}
    gained = set(await kernel.value("sorted(__import__('sys').modules)")) - modules
    assert {module.partition(".")[0] for module in gained} <= set(sys.stdlib_module_names)
    assert (await kernel.run("pass"))["execution_count"] == count + 1


async def test_shadowed_builtins_do_not_matter(clean: Kernel) -> None:
    await clean.run(
        "exec = eval = locals = globals = type = str = json = sys = space = here = report = 1\n"
        "get_ipython = lambda: print('called')\nopen = [101.5]"
    )
    found = by_name(await clean.inspect())
    assert found["exec"].preview == found["report"].preview == "1"
    # IPython has put an `open` there too, but this one is the user's.
    assert found["open"].preview == "[101.5]"
    assert found["get_ipython"].type == "function"
    assert clean.said == []
    await clean.run("del exec, eval, locals, globals, type, str, get_ipython")


async def test_a_fresh_kernel_has_no_variables(clean: Kernel) -> None:
    assert await clean.inspect() == Inspection([], [], 0)


async def test_only_plain_names_are_looked_up_and_nothing_is_evaluated(clean: Kernel) -> None:
    await clean.run("import math\nx = [1]\nµ = 2\n_hidden = 3")
    asked = ["x", "x[0]", "x.pop()", "print(1)", "y", "", "µ", "_hidden", "math", "x"]
    inspection = await clean.inspect(asked)
    assert [(v.name, v.preview) for v in inspection.variables] == [
        ("x", "[1]"),
        ("µ", "2"),
        ("_hidden", "3"),
        ("math", "module math"),
    ]
    assert inspection.missing == ["x[0]", "x.pop()", "print(1)", "y", ""]
    assert clean.said == []
    assert await clean.value("x") == [1]


async def test_a_quote_in_a_name_cannot_break_out_of_the_expression(clean: Kernel) -> None:
    nasty = ["'", '"""', "\\", "]) or print(1) or ([", "\ud800", "{x}"]
    assert len((await clean.inspect(nasty)).missing) == len(nasty)
    assert clean.said == []


async def test_omitted_variables_are_counted(clean: Kernel) -> None:
    await clean.run("globals().update({f'v{n}': n for n in range(70)})")
    inspection = await clean.inspect()
    assert (len(inspection.variables), inspection.more) == (50, 20)


async def test_a_failed_inspection_quotes_the_kernels_error(clean: Kernel) -> None:
    reply = await clean.run("", silent=True, user_expressions={KEY: "1 / 0"})
    with pytest.raises(InspectionFailed, match="ZeroDivisionError: division by zero"):
        introspection.parse(reply)


# Frames and arrays: the real libraries where they can be had, else the little that we use of them

FAKES = {
    "numpy": """
class ndarray:
    def __init__(self, rows):
        self.flat = [item for row in rows for item in row]
        self.shape, self.ndim = (len(rows), len(rows[0])), 2
        self.size, self.nbytes = len(self.flat), 8 * len(self.flat)
        self.dtype = _Float()
    def view(self, cls):
        return self

class _Float:
    kind = "f"
    def __str__(self):
        return "float64"

class _Reduce:
    def __init__(self, function):
        self.function = function
    def reduce(self, array, axis):
        return self.function(array.flat)

array, fmin, fmax = ndarray, _Reduce(min), _Reduce(max)

class float64(float):
    "IPython looks for it as soon as there is a numpy."
""",
    "pandas": """
class Index(list):
    dtype = "int64"
    def tolist(self):
        return list(self)
    def __getitem__(self, item):
        return Index(list.__getitem__(self, item))
    shape = property(lambda self: (len(self),))

class _Locations:
    def __init__(self, of):
        self.of = of
    def __getitem__(self, item):
        return self.of.at(item)

class Series:
    dtype = "int64"
    def __init__(self, values, name=None, index=None):
        self.values, self.name = list(values), name
        self.index = index or Index(range(len(self.values)))
        self.shape, self.iloc = (len(self.values),), _Locations(self)
    def at(self, item):
        return Series(self.values[item], self.name, self.index[item])
    def tolist(self):
        return self.values

class DataFrame:
    def __init__(self, data, index=None):
        self.data, self.columns = data, Index(data)
        self.index = index or Index(range(len(next(iter(data.values())))))
        self.shape, self.iloc = (len(self.index), len(data)), _Locations(self)
        self.dtypes = Index("int64" for name in data)
    def at(self, item):
        rows, columns = item
        if isinstance(columns, int):
            return Series(list(self.data.values())[columns][rows])
        names = list(self.columns)[columns]
        return DataFrame({name: self.data[name][rows] for name in names}, self.index[rows])
""",
    "polars": """
class Series:
    dtype = "Int64"
    def __init__(self, name, values):
        self.name, self.values, self.shape = name, values, (len(values),)
    def head(self, count):
        return Series(self.name, self.values[:count])
    def to_list(self):
        return self.values

class DataFrame:
    def __init__(self, data):
        self.data, self.columns = data, list(data)
        self.shape = (len(next(iter(data.values()))), len(data))
        kinds = {int: "Int64", list: "List(Int64)"}
        self.dtypes = [kinds[type(values[0])] for values in data.values()]
    def head(self, count):
        return DataFrame({name: values[:count] for name, values in self.data.items()})
    def select(self, names):
        return DataFrame({name: self.data[name] for name in names})
    def rows(self):
        return list(zip(*self.data.values()))
    def lazy(self):
        return LazyFrame()

class LazyFrame:
    columns = property(lambda self: 1 / 0)
""",
    "torch": """
class _Device:
    def __init__(self, type):
        self.type = type
    def __str__(self):
        return self.type

class Tensor:
    dtype, layout, requires_grad = "torch.float32", "torch.strided", True
    def __init__(self, values, device="cpu"):
        self.values, self.shape, self.device = values, (len(values),), _Device(device)
    def numel(self):
        return len(self.values)
    def element_size(self):
        return 4
    def detach(self):
        if self.device.type != "cpu":
            raise RuntimeError("waits for the device")
        return self
    def reshape(self, size):
        return self.values

class _Values(list):
    def __getitem__(self, item):
        return _Values(list.__getitem__(self, item))
    def tolist(self):
        return list(self)

def tensor(values, device="cpu"):
    return Tensor(_Values(values), device)
""",
}

FRAMES = """
import numpy, pandas, polars, torch
grid = numpy.array([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
sales = pandas.DataFrame({"day": [1, 2, 3, 4], "units": [10, 20, 30, 40]})
units = pandas.Series([10, 20], name="units")
index = pandas.Index([1, 2])
table = polars.DataFrame({"day": [1, 2, 3, 4], "parts": [[1], [2], [3], [4]]})
column = polars.Series("day", [1, 2])
query = table.lazy()
weights = torch.tensor([0.5, 1.5])
far = torch.tensor([0.5, 1.5], device="cuda")
inside = [grid, sales]
"""


def frames_are_told(found: dict[str, Variable]) -> None:
    def told(name: str) -> tuple[Any, ...]:
        variable = found[name]
        return variable.type, variable.shape, variable.columns, variable.preview

    assert told("grid") == (
        "numpy.ndarray",
        "(2, 3)",
        None,
        "float64 [0.0, 1.0, 2.0, 3.0, 4.0, 5.0] min 0.0 max 5.0",
    )
    assert found["grid"].size == "48 B"
    assert told("sales") == (
        "pandas.DataFrame",
        "(4, 2)",
        "day: int64, units: int64",
        "   day  units\n0    1     10\n1    2     20\n2    3     30",
    )
    assert told("units") == ("pandas.Series", "(2,)", None, "int64, name 'units' {0: 10, 1: 20}")
    assert told("index") == ("pandas.Index", "(2,)", None, "int64 [1, 2]")
    assert told("table") == (
        "polars.DataFrame",
        "(4, 2)",
        "day: Int64, parts: List(Int64)",
        "day  ...\n  1  ...\n  2  ...\n  3  ...",
    )
    assert told("column") == ("polars.Series", "(2,)", None, "Int64, name 'day' [1, 2]")
    assert told("query") == ("polars.LazyFrame", None, None, "<lazy query, not collected>")
    assert told("weights") == (
        "torch.Tensor",
        "(2,)",
        None,
        "torch.float32 on cpu, requires grad [0.5, 1.5]",
    )
    assert told("far") == ("torch.Tensor", "(2,)", None, "torch.float32 on cuda, requires grad")
    assert found["inside"].preview == "[<numpy.ndarray (2, 3)>, <pandas.DataFrame (4, 2)>]"


async def test_frames_and_arrays_are_shown_by_shape_and_first_rows() -> None:
    fakes = {
        name: source
        for name, source in FAKES.items()
        if name == "torch" or importlib.util.find_spec(name) is None
    }
    async with running_kernel() as kernel:
        reply = await kernel.run(
            "import sys, types\n"
            f"for _name, _source in {fakes!r}.items():\n"
            "    sys.modules[_name] = types.ModuleType(_name)\n"
            "    exec(_source, vars(sys.modules[_name]))\n" + FRAMES
        )
        assert reply["status"] == "ok", reply
        frames_are_told(by_name(await kernel.inspect()))
        assert kernel.said == []


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    modules = {name: types.ModuleType(name) for name in FAKES}
    for name, module in modules.items():
        exec(FAKES[name], vars(module))
        monkeypatch.setitem(sys.modules, name, module)
    return modules


def test_a_table_shows_the_columns_that_fit_without_calling_cell_code(
    fakes: dict[str, Any],
) -> None:
    frame = fakes["pandas"].DataFrame
    touchy = Touchy()
    Touchy.asked.clear()
    found = told(
        {
            "cells": frame({"text": ["a\nb", "c" * 50], "cell": [touchy, 0.1 + 0.2]}),
            "wide": frame({f"column number {n}": [n] for n in range(30)}),
        }
    )
    assert [line.split() for line in found["cells"].preview.split("\n")] == [
        ["text", "cell"],
        ["0", r"a\nb", "<tests.execution.test_i..."],
        ["1", "c" * 23 + "...", "0.3"],
    ]
    assert Touchy.asked == []
    header, row = found["wide"].preview.split("\n")
    assert header.startswith("   column number 0  column number 1")
    assert header.endswith("  ...")
    assert row.split()[:3] == ["0", "0", "1"]
    assert len(found["wide"].preview) <= 300
    columns = found["wide"].columns
    assert columns is not None
    assert columns.startswith("column number 0: int64, ")


def test_frames_and_arrays_are_recognized_only_by_modules_already_imported(
    fakes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(FRAMES, space)
    frames_are_told(told(space))

    for name in FAKES:
        monkeypatch.delitem(sys.modules, name)
    # Their classes alone are not enough: whoever made them is not asked anything.
    assert told(space)["sales"].preview == "<pandas.DataFrame> with data, columns, index, " + (
        "shape, iloc, dtypes"
    )
    assert not sys.modules.keys() & FAKES.keys()


# Objects that would rather not be looked at


def told(space: dict[str, Any], most: int = 50, preview: int = 300) -> dict[str, Variable]:
    report = in_kernel.report(space, None, most, preview)
    assert report.isascii()
    data = {"text/plain": repr(report)}
    reply = {"status": "ok", "user_expressions": {KEY: {"status": "ok", "data": data}}}
    return by_name(introspection.parse(reply))


def preview(value: Any) -> str:
    return told({"value": value})["value"].preview


class Touchy:
    """Any question is one too many."""

    asked: list[str] = []  # noqa: RUF012

    def __init__(self) -> None:
        vars(self).update(visible=1, _private=2)

    def _refuse(self, *args: Any) -> Any:
        Touchy.asked.append("asked")
        raise RuntimeError("do not touch")

    __repr__ = __str__ = __len__ = __bool__ = __iter__ = __hash__ = _refuse
    __eq__ = __getattr__ = __dir__ = __format__ = __reduce__ = _refuse
    shape = columns = dtype = property(_refuse)


def _lie(self: object, *args: Any) -> Any:
    raise RuntimeError("a lie")


#: Not even what it is can be asked.
Veiled: Any = type(
    "Veiled",
    (),
    {"__class__": property(_lie), "__dict__": property(_lie), "__getattribute__": _lie},
)


class Proud(type):
    """A metaclass that has its own idea of what its classes are."""

    def __eq__(cls, other: object) -> bool:
        raise RuntimeError("beyond compare")

    def __hash__(cls) -> int:
        raise RuntimeError("not to be hashed")

    def __instancecheck__(cls, instance: object) -> bool:
        raise RuntimeError("not to be checked")

    def __getattribute__(cls, name: str) -> Any:
        raise RuntimeError("no " + name)


def test_no_code_of_an_unknown_class_is_run() -> None:
    touchy = Touchy()
    Touchy.asked.clear()
    name = "tests.execution.test_introspection.Touchy"
    assert preview(touchy) == f"<{name}> with visible"
    assert preview([touchy, {"key": touchy}]) == f"[<{name}>, {{'key': <{name}>}}]"
    assert Touchy.asked == []
    assert preview(Veiled()).endswith("Veiled>")


def test_metaclass_code_is_not_run() -> None:
    cls: Any = Proud("Cls", (), {"__module__": "__main__"})
    space = {"__name__": "__main__", "cls": cls, "value": object.__new__(cls), "after": 1}
    found = told(space)
    assert found["value"].preview == "<Cls>"
    assert found["cls"].preview == "class Cls"
    assert list(found) == ["value", "after", "cls"]


def test_a_variable_that_fails_does_not_affect_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = types.ModuleType("pandas")
    exec("class DataFrame:\n    iloc = property(lambda self: {}[0])", vars(module))
    monkeypatch.setitem(sys.modules, "pandas", module)
    found = told({"frame": module.DataFrame(), "after": 1})
    assert found["frame"].type == "pandas.DataFrame"
    assert found["frame"].preview == "preview failed: KeyError"
    assert found["after"].preview == "1"


class Colour(enum.IntEnum):
    RED = 1


class LoudList(list[int]):
    def __repr__(self) -> str:
        raise RuntimeError

    __len__ = __iter__ = __repr__  # type: ignore[assignment]


class LoudText(str):
    __slots__ = ()
    __repr__ = __str__ = __len__ = __getitem__ = None  # type: ignore[assignment]


class LoudZone(datetime.tzinfo):
    def _refuse(self, moment: datetime.datetime | None) -> Any:
        raise RuntimeError

    utcoffset = dst = tzname = _refuse


HERE = "tests.execution.test_introspection"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, "True"),
        (10**10_000, "<int of 33220 bits>"),
        ([10**10_000], "[<int of 33220 bits>]"),
        (range(10**30), f"range(0, {10**30})"),
        (range(0, 9, 3), "range(0, 9, 3)"),
        ((1,), "(1,)"),
        (set(), "set()"),
        ({}, "{}"),
        ({(1, 2): {3}}, "{(1, 2): {3}}"),
        (list(range(1000)), "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ...]"),
        ([[[1]]], "[[[...]]]"),
        (["x" * 100], "['" + "x" * 60 + "'...]"),
        (collections.deque([1]), "[1]"),
        (collections.OrderedDict(a=1), "{'a': 1}"),
        (bytearray(b"a"), "bytearray(b'a')"),
        (1j, "1j"),
        (fractions.Fraction(1, 3), "1/3"),
        (pathlib.PurePosixPath("/tmp"), "/tmp"),
        (datetime.date(2024, 5, 1), "2024-05-01"),
        (datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC), "2024-05-01 00:00:00+00:00"),
        (
            datetime.datetime(2024, 5, 1, tzinfo=LoudZone()),
            f"2024-05-01 00:00:00 <{HERE}.LoudZone>",
        ),
        (Colour.RED, f"{HERE}.Colour.RED"),
        (LoudList([1, 2]), "[1, 2]"),
        (LoudText("text"), "'text'"),
        ([print, Colour], f"[<builtin_function_or_method>, <class {HERE}.Colour>]"),
        ((n for n in [1]), "<generator>"),
        (types.SimpleNamespace(a=1, _b=2), "<types.SimpleNamespace> with a"),
    ],
    # pytest would name them after themselves, and stumble over what this test is about.
    ids=lambda value: value if type(value) is str else "",
)
def test_previews_are_short(value: Any, expected: str) -> None:
    assert preview(value) == expected


def test_a_recursive_container_is_shown_once() -> None:
    value: list[Any] = [1]
    value.append(value)
    assert preview(value) == "[1, [1, [...]]]"


def test_the_length_of_a_subclass_is_shown_only_if_it_does_not_override_len() -> None:
    found = told({"loud": LoudList([1]), "quiet": collections.Counter("aab"), "far": range(10**30)})
    assert [found[name].size for name in ("loud", "quiet", "far")] == [None, "2 items", None]


def test_lone_surrogates_are_escaped() -> None:
    value = Touchy()
    vars(value)["\ud800"] = 1
    found = told({"text": "\ud800", "value": value})
    assert found["text"].preview == r"'\ud800'"
    assert found["value"].preview == rf"<{HERE}.Touchy> with visible, \ud800"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            "def f(a, /, b, c=1, *rest, d, e='x', **more): pass",
            "f(a, /, b, c=1, *rest, d, e='x', **more)",
        ),
        ("def f(*, a): pass", "f(*, a)"),
        ("async def f(): pass", "async f()"),
        ("f = lambda x=object(): x", "<lambda>(x=<object>)"),
        ("def f(a: 1 / 1 = []) -> None:\n    '''\n    First.\n    Second.'''", "f(a=[]): First."),
        ("class f(dict): pass", "class f(dict)"),
        ("class f:\n    'Doc.'\n    def __init__(self, a): pass", "class f, made by f(a): Doc."),
    ],
)
def test_definitions_are_shown_by_signature(source: str, expected: str) -> None:
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(source, space)
    assert told(space)["f"].preview == expected


def test_imported_names_are_not_listed() -> None:
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(
        "from __future__ import annotations\nimport json, os.path as path\n"
        "from typing import Optional, TypeVar\nfrom math import sqrt\n"
        "from collections import OrderedDict\nfrom textwrap import dedent\nown = 1",
        space,
    )
    assert list(told(space)) == ["own"]


def test_a_variable_that_a_thread_keeps_changing_can_be_inspected() -> None:
    value = {n: n for n in range(50)}
    space: dict[Any, Any] = {"value": value, 3: "not a name"}
    stopped = threading.Event()

    def change() -> None:
        n = 0
        while not stopped.is_set():
            n += 1
            value[n % 100] = value.pop((n + 50) % 100, n)
            space[f"new{n % 10}"] = space.pop(f"new{(n + 5) % 10}", n)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(50):
            assert "value" in told(space)
    finally:
        stopped.set()
        thread.join()


def test_huge_objects_cost_no_more_than_small_ones() -> None:
    def space(size: int) -> dict[str, Any]:
        return {"text": "x" * size, "rows": [[size]] * size, "map": dict.fromkeys(range(size))}

    sizes = {size: space(size) for size in (250_000, 1_000_000)}
    # Four times the work would be four times the time; the floor of what a clock can tell is below.
    assert growth(lambda size: in_kernel.report(sizes[size], None, 50, 300), 250_000) < 2


def test_the_cost_is_linear_in_the_number_of_variables() -> None:
    def looks(count: int) -> int:
        space = {f"v{n}": n for n in range(count)}
        report = in_kernel.report(space, None, 50, 300)
        assert len(report) < 50 * 500
        return calls(lambda: in_kernel.report(space, None, 50, 300))

    assert looks(10_000) < 11 * looks(1_000)


def test_every_text_is_bounded() -> None:
    long = "n" * 10_000
    cls = type(long, (), {})
    value = cls()
    vars(value).update({long + str(n): n for n in range(100)})
    found = json.loads(in_kernel.report({long: value}, None, 50, 300))
    assert max(len(text or "") for text in found["variables"][0].values()) <= 300
    assert len(in_kernel.report({}, [long] * 2 + ["-" + long], 50, 300)) < 1000


def test_the_source_is_valid_for_old_kernels() -> None:
    tree = ast.parse(in_kernel.source(), feature_version=(3, 8))
    imported = {
        name
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [str(node.module)]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported <= set(sys.stdlib_module_names)
    newer = {"removeprefix", "removesuffix", "pairwise", "batched", "bit_count"}
    assert not {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)} & newer


def test_the_source_sent_to_the_kernel_defines_no_name_twice() -> None:
    """The modules share one namespace in the kernel: the later of two would replace the other."""
    tree = ast.parse(in_kernel.source())
    given = [
        name.id if isinstance(name, ast.Name) else name.name
        for node in tree.body
        for name in (
            node.targets
            if isinstance(node, ast.Assign)
            else [node.target]
            if isinstance(node, ast.AnnAssign)
            else [node]
        )
        if isinstance(name, (ast.Name, ast.FunctionDef, ast.ClassDef))
    ]
    assert "report" in given
    assert sorted(given) == sorted(set(given))


def test_every_shaped_type_has_a_describer() -> None:
    assert {*SHAPED, "polars.LazyFrame"} == set(DESCRIBERS)


# Answers that are none


def answered(**answer: Any) -> dict[str, Any]:
    return {"status": "ok", "user_expressions": {KEY: {"status": "ok", **answer}}}


def plain(text: Any) -> dict[str, Any]:
    return answered(data={"text/plain": text})


def unreadable_answers() -> Iterator[Any]:
    yield pytest.param({}, "did not look", id="empty")
    yield pytest.param({"status": "aborted"}, "aborted", id="aborted")
    error = {"status": "error", "ename": "KeyboardInterrupt", "evalue": ""}
    yield pytest.param(error, "KeyboardInterrupt$", id="error")
    yield pytest.param({"status": "ok"}, "a Python kernel", id="no answers")
    yield pytest.param({"status": "ok", "user_expressions": {}}, "a Python kernel", id="no answer")
    failed = answered(status="error", ename="NameError", evalue="x\ud800")
    yield pytest.param(failed, r"NameError: x\\ud800", id="expression failed")
    yield pytest.param(answered(), "no text", id="no data")
    yield pytest.param(answered(data={"text/html": "<p>"}), "no text", id="no plain text")
    yield pytest.param(plain([1, 2]), "no text", id="no lines")
    yield pytest.param(plain("<object>"), "not a Python string", id="no literal")
    yield pytest.param(plain("(" * 10_000), "not a Python string", id="deep")
    yield pytest.param(plain("[1]"), "not a Python string", id="no string")
    yield pytest.param(plain("'{'"), "not JSON", id="no JSON")
    for text in ("[]", "{}", "null", '{"variables": [1], "missing": [], "more": 0}'):
        yield pytest.param(plain(repr(text)), "does not list", id=text)


@pytest.mark.parametrize(("reply", "said"), list(unreadable_answers()))
def test_an_unreadable_answer_is_reported(reply: dict[str, Any], said: str) -> None:
    with pytest.raises(InspectionFailed, match=said):
        introspection.parse(reply)


def test_text_may_arrive_as_a_list_of_lines() -> None:
    text = repr(json.dumps({"variables": [], "missing": ["x"], "more": 2}))
    assert introspection.parse(plain([text[:9], text[9:]])) == Inspection([], ["x"], 2)
