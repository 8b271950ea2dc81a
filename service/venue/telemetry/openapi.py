"""The OpenAPI 3.1 document of the API, made from its endpoints and the types of their answers."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

import msgspec
import orjson

import venue
from venue.telemetry import answers
from venue.telemetry.api import ENDPOINTS, KILL_PATH, Endpoint, Parameter

SCHEMAS: Final = "#/components/schemas/{name}"


def document() -> dict[str, Any]:
    """The whole document."""
    types = [endpoint.answer for endpoint in ENDPOINTS] + [answers.Killed, answers.KillSwitch, answers.Error]
    references, schemas = msgspec.json.schema_components(types, ref_template=SCHEMAS)
    reference = dict(zip(types, references, strict=True))
    paths: dict[str, Any] = {endpoint.path: {"get": _get(endpoint, reference)} for endpoint in ENDPOINTS}
    paths[KILL_PATH] = {"post": _kill(reference)}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "venue",
            "version": venue.__version__,
            "description": "A running exchange: books, orders, trades, figures. Reading needs nothing; what changes "
            "something needs the operator's token. Times are ns since midnight in New York, ticks 1/10,000 USD.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"operator": {"type": "http", "scheme": "bearer"}},
        },
    }


def encoded() -> bytes:
    """The document as it is served."""
    return orjson.dumps(document(), option=orjson.OPT_INDENT_2)


def _get(endpoint: Endpoint, reference: dict[type[Any], Any]) -> dict[str, Any]:
    parameters = [_parameter(parameter) for parameter in endpoint.parameters]
    if "{symbol}" in endpoint.path:
        parameters.insert(0, _in_path("symbol"))
    return {
        "operationId": endpoint.handle.__name__,
        "summary": endpoint.summary,
        "parameters": parameters,
        "responses": _responses(reference[endpoint.answer], endpoint.errors, reference[answers.Error]),
    }


def _kill(reference: dict[type[Any], Any]) -> dict[str, Any]:
    return {
        "operationId": "set_kill_switch",
        "summary": "Cancel all orders of an account and let it enter none, or let it trade again.",
        "security": [{"operator": []}],
        "parameters": [_in_path("account")],
        "requestBody": {"required": True, "content": _json(reference[answers.KillSwitch])},
        "responses": _responses(
            reference[answers.Killed], (400, 401, 403, 404, 429, 503, 504), reference[answers.Error]
        ),
    }


def _responses(answer: Any, errors: tuple[int, ...], error: Any) -> dict[str, Any]:
    responses = {"200": {"description": "OK", "content": _json(answer)}}
    for status in errors:
        responses[str(status)] = {"description": HTTPStatus(status).phrase, "content": _json(error)}
    return responses


def _json(schema: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _in_path(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _parameter(parameter: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string", "pattern": f"^{parameter.pattern}$"}
    if parameter.default is not None:
        schema = {"type": "integer", "minimum": parameter.low, "maximum": parameter.high, "default": parameter.default}
    return {"name": parameter.name, "in": "query", "description": parameter.meaning, "schema": schema}
