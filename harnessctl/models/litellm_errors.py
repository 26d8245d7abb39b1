"""litellm's exceptions, translated in one place. Works by class name, so it needs no import of litellm."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from harnessctl.models.failures import RETRIED, TryError, classify
from harnessctl.models.retry import parse_retry_after

#: Every exception class of ``litellm.exceptions`` and the kind it means; "" where status and text decide.
KINDS: dict[str, str] = {
    "APIConnectionError": "unavailable",
    "APIError": "",
    "APIResponseValidationError": "other",
    "AuthenticationError": "auth",
    "BadGatewayError": "unavailable",
    "BadRequestError": "",
    "BlockedPiiEntityError": "bad_request",
    "BudgetExceededError": "other",
    "CallerCredentialAuthenticationError": "auth",
    "CallerCredentialRateLimitError": "rate_limit",
    "ContentPolicyViolationError": "bad_request",
    "ContextWindowExceededError": "overflow",
    "EndpointNotSupportedByModelError": "bad_request",
    "GuardrailRaisedException": "bad_request",
    "ImageFetchError": "bad_request",
    "InternalServerError": "unavailable",
    "InvalidRequestError": "bad_request",
    "JSONSchemaValidationError": "other",
    "LiteLLMUnknownProvider": "not_found",
    "MalformedRequestFieldError": "bad_request",
    "MidStreamFallbackError": "cut",
    "MockException": "",
    "ModelNotMappedError": "other",
    "ModifyResponseException": "other",
    "NotFoundError": "not_found",
    "OpenAIError": "other",
    "PaymentRequiredError": "auth",
    "PermissionDeniedError": "auth",
    "RateLimitError": "rate_limit",
    "RejectedRequestError": "bad_request",
    "SensitiveDataRouteException": "other",
    "ServiceUnavailableError": "unavailable",
    "Timeout": "timeout",
    "UnprocessableEntityError": "bad_request",
    "UnsupportedEndpointError": "bad_request",
    "UnsupportedParamsError": "bad_request",
    "VectorStoreSearchError": "bad_request",
}

_PREFIX = re.compile(r"^(?:litellm\.\w+: |\w+(?:Error|Exception): |\w+Exception - )+")
#: How litellm and the clients below it say that they have no key to send; no request was made then.
_NO_KEY = re.compile(
    r"missing (\w+ )?(credentials|api key)|api[_ ]?key.{0,60}must be set|no api[_ ]?key", re.IGNORECASE
)
#: Names a provider may refuse and a request can do without.
_REFUSED = re.compile(
    r"unsupported|not support|unrecognized|unknown|extra inputs|not permitted", re.IGNORECASE
)


def translate(error: Exception, *, streaming: bool = False) -> TryError:
    """What ``error`` means. ``streaming``: parts of the reply had arrived."""
    original = getattr(error, "original_exception", None)
    if type(error).__name__ == "MidStreamFallbackError" and isinstance(original, Exception):
        inner = translate(original)
        whole_try = inner.kind in ("rate_limit", "overflow", "auth", "timeout")
        return inner if whole_try else TryError("cut", f"the reply was cut: {inner.message}", None, True)
    headers = response_headers(error)
    # litellm invents a status where there was no HTTP answer; a real answer has headers.
    status = _status(error) if headers else None
    text = error_text(error)
    kind, retryable = _kind(error, status, text)
    if not headers and _NO_KEY.search(text):
        kind, retryable = "auth", False  # litellm calls it a fault of the server or the line
    if streaming and kind in ("unavailable", "other"):
        kind, retryable, text = "cut", True, f"the reply was cut: {text}"
    return TryError(kind, text, status, retryable, parse_retry_after(headers))


def _kind(error: Exception, status: int | None, text: str) -> tuple[str, bool]:
    by_text = classify(status or _status(error), f"{text} {_code(error)}")
    if by_text[0] in ("overflow", "rate_limit"):
        return by_text  # litellm takes some throttling for overflow, and misses some overflow
    for cls in type(error).__mro__:
        kind = KINDS.get(cls.__name__)
        if kind == "":
            return by_text
        if kind is not None:
            return kind, kind in RETRIED
    return "other", False


def response_headers(error: Exception) -> Mapping[str, str]:
    """Headers of the HTTP answer behind ``error``, {} when there was none."""
    response = getattr(error, "response", None)
    for headers in (
        getattr(error, "litellm_response_headers", None),
        getattr(response, "headers", None),
        getattr(error, "headers", None),
    ):
        if headers:
            return {str(name): str(value) for name, value in dict(headers).items()}
    return {}


def _status(error: Exception) -> int | None:
    try:
        return int(getattr(error, "status_code", None) or 0) or None
    except (TypeError, ValueError):
        return None


def _body(error: Exception) -> Mapping[str, Any]:
    body = getattr(error, "body", None)
    return body if isinstance(body, Mapping) else {}


def _code(error: Exception) -> str:
    return str(_body(error).get("code") or getattr(error, "code", "") or "")


def error_text(error: Exception) -> str:
    """The provider's own words, without the library's prefixes, 2,000 characters at most."""
    message = _body(error).get("message")
    text = message if isinstance(message, str) and message else str(getattr(error, "message", "") or error)
    return _PREFIX.sub("", text).strip()[:2000] or type(error).__name__


def refused_parameter(error: Exception, sent: Mapping[str, Any]) -> str | None:
    """Name of the parameter in ``sent`` that the provider does not take, None when it is something else.

    OpenAI says it with ``code`` unsupported_value or unsupported_parameter and ``param``; others, and
    litellm itself, only in words.
    """
    text = error_text(error)
    code = _code(error)
    if not (code.startswith("unsupported") or _REFUSED.search(text)):
        return None
    named = _body(error).get("param")
    if isinstance(named, str) and named in sent:
        return named
    return next((name for name in sent if re.search(rf"\b{re.escape(name)}\b", text)), None)
