"""CEL in admission: conditions of webhooks and policies.

The interpreter is the package ``cel-expr-python`` of the extra ``testing``. It is needed only for objects with CEL
expressions. Optional syntax and string functions work. Kubernetes' own libraries (quantities, authorizer, URLs) do not.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import TYPE_CHECKING, Any

from hami_core.sim.resources import ApiError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hami_core.sim.resources import Object

_VARIABLES = ("object", "oldObject", "request", "namespaceObject", "params", "variables")


class ExpressionError(Exception):
    """An expression cannot be evaluated."""


@cache
def _environment() -> Any:  # noqa: ANN401 - the package is optional
    try:
        cel = importlib.import_module("cel_expr_python.cel")
        optional = importlib.import_module("cel_expr_python.ext.ext_optional")
        strings = importlib.import_module("cel_expr_python.ext.ext_strings")
    except ImportError as error:
        fix = "pip install 'hami[testing]'"
        text = f"a CEL expression needs the package cel-expr-python, which is not installed: {fix}"
        raise ApiError(500, "InternalError", text) from error
    variables = dict.fromkeys(_VARIABLES, cel.Type.DYN)
    return cel.NewEnv(variables=variables, extensions=[optional.ExtOptional(), strings.ExtStrings()])


@cache
def _compiled(expression: str) -> Any:  # noqa: ANN401 - the package is optional
    return _environment().compile(expression)


def evaluate(expression: str, known: Mapping[str, Any]) -> Any:  # noqa: ANN401 - any JSON value
    """The value of an expression.

    Args:
        expression: CEL.
        known: Values by variable. All other variables are null.

    Raises:
        ExpressionError: The expression does not compile, or fails on these values.
        ApiError: 500 if the interpreter is not installed.
    """
    try:
        value = _compiled(expression).eval(data={**dict.fromkeys(_VARIABLES), **known})
    except RuntimeError as error:
        raise ExpressionError(str(error)) from error
    if value.type().name() == "ERROR":
        raise ExpressionError(str(value.value()))
    return value.plain_value()


def conditions(listed: Sequence[Object] | None, known: Mapping[str, Any], *, fail: bool) -> tuple[bool, str]:
    """Whether all `matchConditions` hold, and an error if that is unknown.

    One false condition decides, even if others fail. Without ``fail``, an error counts as false.
    """
    errors = []
    for condition in listed or []:
        expression = condition["expression"]
        try:
            if evaluate(expression, known) is not True:
                return False, ""
        except ExpressionError as error:
            errors.append(f"expression '{expression}' resulted in error: {error}")
    if errors and fail:
        return False, errors[0]
    return not errors, ""
