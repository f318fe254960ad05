"""Facts about a class that bypass metaclasses and `__class__`."""

from __future__ import annotations

import builtins
import sys
import types
from typing import Any

from .bounds import copied

_mro_of: Any = type.__dict__["__mro__"]
bases_of: Any = type.__dict__["__bases__"]
_dict_of: Any = type.__dict__["__dict__"]
_module_of: Any = type.__dict__["__module__"]
_qualname_of: Any = type.__dict__["__qualname__"]


def mro(cls: Any) -> tuple[Any, ...]:
    return tuple(_mro_of.__get__(cls))


def class_dict(cls: Any) -> Any:
    return _dict_of.__get__(cls)


def module_name(cls: Any) -> str:
    try:
        name = _module_of.__get__(cls)
    except AttributeError:
        return ""
    return name if type(name) is str else ""


def has_class(classes: tuple[Any, ...], wanted: Any) -> bool:
    # `in` would call a metaclass to compare them.
    return any(cls is wanted for cls in classes)


def known_as(cls: Any) -> str:
    """`pandas.DataFrame` for the class that has this name in the package itself, else empty."""
    package, name = root_package(module_name(cls)), str(_qualname_of.__get__(cls))
    return package + "." + name if imported_member(package, name) is cls else ""


def type_name(cls: Any) -> str:
    module, name = module_name(cls), str(_qualname_of.__get__(cls))
    if module in ("", "builtins", "__main__"):
        return name
    return known_as(cls) or module + "." + name


def root_package(module: str) -> str:
    return module.partition(".")[0]


def imported_member(package: str, name: str) -> Any:
    """What an already imported package has under a name; never imports anything."""
    module = builtins if package == "builtins" else sys.modules.get(package)
    if module is None:
        return None
    try:
        return object.__getattribute__(module, "__dict__").get(name)
    except Exception:
        return None


def instance_dict(value: Any) -> dict[Any, Any]:
    """`vars(value)`, unless the class would run its own code for that."""
    for cls in mro(type(value)):
        found = class_dict(cls).get("__dict__")
        if found is not None:
            if type(found) not in (types.GetSetDescriptorType, types.MemberDescriptorType):
                return {}
            known = found.__get__(value)
            return copied(known) if type(known) is dict else {}
    return {}
