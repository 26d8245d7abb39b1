"""Which secrets are looked for: chosen plugins of detect-secrets, and the token forms it lacks.

Of detect-secrets only the regular expressions are used (``denylist``), never its scan: its own
result is at times one group of a match (``ghp`` for a whole token), which would leave the rest in
plain sight, and its plugins can call out to the network to verify. Importing one costs 180 ms
(it pulls in ``requests``), so a kind is loaded only where its ``hint`` stands in the text.

Left out on purpose: Artifactory's (``AP`` and nine letters are many an ordinary word), the keyword
and the entropy plugins (ordinary words and git hashes are hits). In their place :data:`ASSIGNED`
takes a long mixed value only next to a name that says it is a secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module

from harnessctl.domain.ids import is_ulid


def _any(match: re.Match[str]) -> bool:  # noqa: ARG001 - the shape of a test
    return True


@dataclass(frozen=True)
class SecretKind:
    """One kind of secret.

    :ivar name: said in findings and in masked text.
    :ivar hint: a cheap expression that matches wherever a secret of this kind may be.
    :ivar plugin: ``module:Class`` in ``detect_secrets.plugins``, "" for our own expression.
    :ivar own: our own expression.
    :ivar accept: a last look at a match.
    :ivar tail: what a match is stretched over, so that no part of a longer token stays.
    :ivar group: the part of a match that is the secret; 0, the whole, wherever a plugin's group is not.
    """

    name: str
    hint: re.Pattern[str]
    plugin: str = ""
    own: re.Pattern[str] | None = None
    accept: Callable[[re.Match[str]], bool] = _any
    tail: re.Pattern[str] = re.compile(r"[A-Za-z0-9_-]*")
    group: int | str = 0

    @cached_property
    def patterns(self) -> tuple[re.Pattern[str], ...]:
        """The expressions to search with; imports the plugin on first use."""
        if self.own is not None:
            return (self.own,)
        module, _, name = self.plugin.partition(":")
        plugin = getattr(import_module(f"detect_secrets.plugins.{module}"), name)()
        found: Iterable[re.Pattern[str]] = plugin.denylist
        return tuple(found)


def _in_ulid(match: re.Match[str]) -> bool:
    """Whether the word around the match is a ULID: one in some thousands holds ``A3T``, like a key id."""
    before = re.search(r"[0-9A-Za-z]*\Z", match.string[max(0, match.start() - 26) : match.start()])
    after = re.match("[0-9A-Za-z]*", match.string[match.end() : match.end() + 26])
    return is_ulid(f"{before[0] if before else ''}{match[0]}{after[0] if after else ''}")


def _aws(match: re.Match[str]) -> bool:
    """Not a git hash in quotes that happens to follow the word aws, nor a stretch of an update's id."""
    if _in_ulid(match):
        return False
    value = match.groups()[-1] if match.re.groups else None
    return value is None or re.fullmatch("[0-9a-f]{40}", value) is None


def _jwt(match: re.Match[str]) -> bool:
    plugin = import_module("detect_secrets.plugins.jwt").JwtTokenDetector
    return bool(plugin.is_formally_valid(match[0].strip(".")))


#: Passwords in URLs that stand for a password: ``${PASSWORD}``, ``<password>``, ``***``.
_PLACEHOLDER = re.compile(r"[<{$\[(%*]|(?:\.{3}|…|x{3,}|password|passwd|pass|secret|token)\Z", re.IGNORECASE)


def _basic_auth(match: re.Match[str]) -> bool:
    return _PLACEHOLDER.match(match[1]) is None


def _sk(match: re.Match[str]) -> bool:
    """Not a name of words: it has digits beside letters, or a stretch no word has."""
    rest = match[0][3:]
    return (any(c.isdigit() for c in rest) and any(c.isalpha() for c in rest)) or bool(
        re.search("[A-Za-z0-9]{20}", rest)
    )


def _mixed(match: re.Match[str]) -> bool:
    """Digits and letters, without being one word, a path, a name of words or a version."""
    value = match["value"]
    kinds = sum(bool(re.search(form, value)) for form in ("[a-z]", "[A-Z]", "[0-9]"))
    mixed = kinds == 3 and len(re.findall("[0-9]", value)) > 1
    return mixed or re.fullmatch("(?=.*[0-9])(?=.*[a-z])[0-9a-z]{32,}", value.lower()) is not None


def _p(text: str, flags: int = 0) -> re.Pattern[str]:
    return re.compile(text, flags)


#: A whole block; or, where its end was cut off, the lines that can only be key material.
_PEM = _p(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:"
    r"(?:(?!-----)[\s\S]){0,32768}-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"|(?:(?:\s|\\n|\\r|[\"',+>|]){0,12}(?:[A-Za-z-]{4,20}: [^\n]{0,200}|[A-Za-z0-9+/=]{16,}))*)"
)

#: A long mixed value beside a name that calls it a secret: ``API_TOKEN=…``, ``"password": "…"``.
ASSIGNED = _p(
    r"(?:token|secret|passw(?:or)?d|api[_-]?key|access[_-]?key|private[_-]?key|credential)s?"
    r"[\"']?\s{0,4}(?:=|:|=>|:=)\s{0,4}[\"']?(?P<value>[A-Za-z0-9+/_-]{20,}={0,2})(?![A-Za-z0-9+/_.(-])",
    re.IGNORECASE,
)

_HEADER = _p(
    r"authorization[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?:bearer|basic|token)\s{1,4}(?P<value>[A-Za-z0-9+/_.=-]{16,})",
    re.IGNORECASE,
)
_GOOGLE = _p(r"AIza[0-9A-Za-z_-]{35}|GOCSPX-[0-9A-Za-z_-]{24,}|ya29\.[0-9A-Za-z_-]{30,}")
#: DigitalOcean, Docker Hub, Databricks, xAI, Groq.
_OTHERS = _p(
    r"dop_v1_[0-9a-f]{64}|dckr_pat_[A-Za-z0-9_-]{27}|dapi[0-9a-f]{32}|xai-[A-Za-z0-9]{60,}|gsk_[A-Za-z0-9]{48,}"
)

KINDS: tuple[SecretKind, ...] = (
    SecretKind("private key", _p("PRIVATE KEY"), own=_PEM, tail=_p("")),
    SecretKind(
        "PuTTY private key", _p("PuTTY-User-Key-File-"), own=_p(r"PuTTY-User-Key-File-\d[\s\S]*"), tail=_p("")
    ),
    SecretKind(
        "AWS key",
        _p("(?:A3T|ABIA|ACCA|AKIA|ASIA)[0-9A-Z]{8}|[\"'][0-9a-zA-Z/+]{40}[\"']"),
        "aws:AWSKeyDetector",
        accept=_aws,
    ),
    SecretKind("GitHub token", _p("gh[pousr]_"), "github_token:GitHubTokenDetector"),
    SecretKind("GitHub token", _p("github_pat_"), own=_p(r"github_pat_[A-Za-z0-9_]{36,}")),
    SecretKind(
        "GitLab token",
        _p("gl(?:pat|dt|ft|soat|rt|cbt|imt|ptt|agent)-|gloas-|GR1348941"),
        "gitlab_token:GitLabTokenDetector",
    ),
    SecretKind("OpenAI key", _p("T3BlbkFJ"), "openai:OpenAIDetector"),
    SecretKind("API key", _p("sk-"), own=_p(r"(?<![A-Za-z0-9])sk-[A-Za-z0-9_-]{20,}"), accept=_sk),
    SecretKind(
        "Slack token", _p(r"xox[abposr]-|hooks\.slack\.com/services/", re.IGNORECASE), "slack:SlackDetector"
    ),
    SecretKind("Slack token", _p("x(?:app|oxe)"), own=_p(r"x(?:app-\d|oxe[.-])[A-Za-z0-9.-]{20,}")),
    SecretKind("Stripe key", _p("k_live_"), "stripe:StripeDetector"),
    SecretKind("Stripe webhook secret", _p("whsec_"), own=_p(r"whsec_[A-Za-z0-9+/]{24,}={0,2}")),
    SecretKind(
        "JSON web token", _p("eyJ"), "jwt:JwtTokenDetector", accept=_jwt, tail=_p(r"[A-Za-z0-9_.+/=-]*")
    ),
    SecretKind("npm token", _p("_authToken"), "npm:NpmDetector"),
    SecretKind("npm token", _p("npm_"), own=_p(r"(?<![A-Za-z0-9])npm_[A-Za-z0-9]{36}")),
    SecretKind("PyPI token", _p("pypi-AgE"), "pypi_token:PypiTokenDetector"),
    SecretKind("Twilio key", _p("(?:AC|SK)[a-z0-9]{32}"), "twilio:TwilioKeyDetector"),
    SecretKind("SendGrid key", _p(r"SG\.[A-Za-z0-9_-]{22}\."), "sendgrid:SendGridDetector"),
    SecretKind(
        "password in a URL",
        _p(r"://[^\s/:]*:[^\s/]*@"),
        "basic_auth:BasicAuthDetector",
        accept=_basic_auth,
        tail=_p(""),
        group=1,
    ),
    SecretKind("Mailchimp key", _p("[0-9a-z]{32}-us[0-9]"), "mailchimp:MailchimpDetector"),
    SecretKind(
        "Discord token",
        _p(r"[MNO][A-Za-z0-9_-]{23,25}\.[A-Za-z0-9_-]{6}\."),
        "discord:DiscordBotTokenDetector",
    ),
    SecretKind("Telegram token", _p(r"\d{8}:[0-9A-Za-z_-]{35}"), "telegram_token:TelegramBotTokenDetector"),
    SecretKind(
        "Azure storage key", _p("AccountKey="), "azure_storage_key:AzureStorageKeyDetector", tail=_p("=*")
    ),
    SecretKind("Square secret", _p("sq0csp-"), "square_oauth:SquareOAuthDetector"),
    SecretKind("Google key", _p("AIza|GOCSPX-|ya29\\."), own=_GOOGLE),
    SecretKind("Hugging Face token", _p("hf_"), own=_p(r"(?<![A-Za-z0-9])hf_[A-Za-z0-9]{30,}")),
    SecretKind("access token", _p("dop_v1_|dckr_pat_|dapi|xai-|gsk_"), own=_OTHERS),
    SecretKind(
        "authorization header", _p("authorization", re.IGNORECASE), own=_HEADER, accept=_mixed, group="value"
    ),
    SecretKind(
        "assigned secret",
        _p("token|secret|passw|key|credential", re.IGNORECASE),
        own=ASSIGNED,
        accept=_mixed,
        group="value",
    ),
)
