"""Which secrets are looked for: chosen plugins of detect-secrets, and the token forms it lacks.

Of detect-secrets only the regular expressions are used (``denylist``), never its scan: its own
result is at times one group of a match (``ghp`` for a whole token), which would leave the rest in
plain sight, and its plugins can call out to the network to verify. Importing one costs 180 ms
(it pulls in ``requests``), so a kind is loaded only where the text may hold one.

Expressions stand as text and are compiled when first needed: thirty at import would cost 15 ms.

Left out on purpose: Artifactory's (``AP`` and nine letters are many an ordinary word), the keyword
and the entropy plugins (ordinary words and git hashes are hits), in whose place :data:`ASSIGNED`
takes a long mixed value only next to a name that says it is a secret; and those for OpenAI, npm and
JSON web tokens, whose expressions take time squared over text made for it: ours find the same in one
pass, and a JSON web token is still asked of the plugin whether it is one.
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
    :ivar needles: one of these stands wherever a secret of this kind does.
    :ivar hint: an expression that must match too, where the needles are everyday text.
    :ivar any_case: the needles are lower case and stand in any.
    :ivar plugin: ``module:Class`` in ``detect_secrets.plugins``, "" for our own expression.
    :ivar own: our own expression.
    :ivar accept: a last look at a match.
    :ivar tail: what a match is stretched over, so that no part of a longer token stays.
    :ivar group: the part of a match that is the secret; 0, the whole, wherever a plugin's group is not.
    """

    name: str
    needles: tuple[str, ...]
    hint: str = ""
    plugin: str = ""
    own: str = ""
    accept: Callable[[re.Match[str]], bool] = _any
    tail: str = r"[A-Za-z0-9_-]*"
    group: int | str = 0
    any_case: bool = False

    def may_be_in(self, text: str, folded: str) -> bool:
        """Whether it is worth loading the expressions for ``text``; ``folded`` is its lower case."""
        where = folded if self.any_case else text
        return any(needle in where for needle in self.needles) and re.search(self.hint, text) is not None

    @cached_property
    def patterns(self) -> tuple[re.Pattern[str], ...]:
        """The expressions to search with; imports the plugin on first use."""
        if self.own:
            return (re.compile(self.own),)
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
    return bool(plugin.is_formally_valid(match[0]))


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


#: A whole block; or, where its end was cut off, the lines that can only be key material.
_PEM = (
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:"
    r"(?:(?!-----)[\s\S]){0,32768}-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"|(?:(?:\s|\\n|\\r|[\"',+>|]){0,12}(?:[A-Za-z-]{4,20}: [^\n]{0,200}|[A-Za-z0-9+/=]{16,}))*)"
)

#: A long mixed value beside a name that calls it a secret: ``API_TOKEN=…``, ``"password": "…"``.
ASSIGNED = (
    r"(?i)(?:token|secret|passw(?:or)?d|api[_-]?key|access[_-]?key|private[_-]?key|credential)s?"
    r"[\"']?\s{0,4}(?:=|:|=>|:=)\s{0,4}[\"']?(?P<value>[A-Za-z0-9+/_-]{20,}={0,2})(?![A-Za-z0-9+/_.(-])"
)

_HEADER = (
    r"(?i)authorization[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?:bearer|basic|token)\s{1,4}"
    r"(?P<value>[A-Za-z0-9+/_.=-]{16,})"
)
_GOOGLE = r"AIza[0-9A-Za-z_-]{35}|GOCSPX-[0-9A-Za-z_-]{24,}|ya29\.[0-9A-Za-z_-]{30,}"
#: DigitalOcean, Docker Hub, Databricks, xAI, Groq.
_OTHERS = (
    r"dop_v1_[0-9a-f]{64}|dckr_pat_[A-Za-z0-9_-]{27}|dapi[0-9a-f]{32}"
    r"|xai-[A-Za-z0-9]{60,}|gsk_[A-Za-z0-9]{48,}"
)

_NO_TAIL = ""
_PUTTY = r"PuTTY-User-Key-File-\d[\s\S]*"
#: Not in the middle of a word; the letter of an escape (``\\n`` in JSON) is no word.
_BEGINS = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"
_JWT = _BEGINS + r"eyJ[A-Za-z0-9_=-]{5,8192}\.[A-Za-z0-9_=-]{5,65536}(?:\.[A-Za-z0-9_.+/=-]{0,8192})?"
_NPMRC = r"_authToken\s{0,4}=\s{0,4}[\"']?(?P<value>(?![$%{])[A-Za-z0-9_+/=-]{20,})"
_QUOTED_40 = "[\"'][0-9a-zA-Z/+]{40}[\"']"
_SLACK = r"(?i)xox[abposr]-|hooks\.slack\.com/services/"
_DISCORD = r"[MNO][A-Za-z0-9_-]{23,25}\.[A-Za-z0-9_-]{6}\."
_TELEGRAM = r"\d{8}:[0-9A-Za-z_-]{35}"


def _each(form: str, letters: str) -> tuple[str, ...]:
    return tuple(form.format(letter) for letter in letters)


_AWS = ("A3T", "ABIA", "ACCA", "AKIA", "ASIA")
_GITLAB = (
    *("glpat-", "gldt-", "glft-", "glsoat-", "glrt-", "glcbt-", "glimt-", "glptt-", "glagent-", "gloas-"),
    "GR1348941",
)

KINDS: tuple[SecretKind, ...] = (
    SecretKind("private key", ("PRIVATE KEY",), own=_PEM, tail=_NO_TAIL),
    SecretKind("PuTTY private key", ("PuTTY-User-Key-File-",), own=_PUTTY, tail=_NO_TAIL),
    SecretKind("AWS key", _AWS, "(?:A3T|A[A-Z]{3})[0-9A-Z]{16}", plugin="aws:AWSKeyDetector", accept=_aws),
    SecretKind("AWS key", ("aws",), _QUOTED_40, plugin="aws:AWSKeyDetector", accept=_aws, any_case=True),
    SecretKind("GitHub token", _each("gh{}_", "pousr"), plugin="github_token:GitHubTokenDetector"),
    SecretKind("GitHub token", ("github_pat_",), own=r"github_pat_[A-Za-z0-9_]{36,}"),
    SecretKind("GitLab token", _GITLAB, plugin="gitlab_token:GitLabTokenDetector"),
    SecretKind("API key", ("sk-",), own=_BEGINS + r"sk-[A-Za-z0-9_-]{20,}", accept=_sk),
    SecretKind(
        "Slack token", ("xox", "hooks.slack.com"), _SLACK, plugin="slack:SlackDetector", any_case=True
    ),
    SecretKind("Slack token", ("xapp", "xoxe"), own=r"x(?:app-\d|oxe[.-])[A-Za-z0-9.-]{20,}"),
    SecretKind("Stripe key", ("k_live_",), plugin="stripe:StripeDetector"),
    SecretKind("Stripe webhook secret", ("whsec_",), own=r"whsec_[A-Za-z0-9+/]{24,}={0,2}"),
    SecretKind("JSON web token", ("eyJ",), own=_JWT, accept=_jwt, tail=_NO_TAIL),
    SecretKind("npm token", ("_authToken",), own=_NPMRC, group="value"),
    SecretKind("npm token", ("npm_",), own=_BEGINS + r"npm_[A-Za-z0-9]{36}"),
    SecretKind("PyPI token", ("pypi-AgE",), plugin="pypi_token:PypiTokenDetector"),
    SecretKind("Twilio key", ("AC", "SK"), "(?:AC|SK)[a-z0-9]{32}", plugin="twilio:TwilioKeyDetector"),
    SecretKind("SendGrid key", ("SG.",), plugin="sendgrid:SendGridDetector"),
    SecretKind(
        "password in a URL",
        ("://",),
        r"://[^\s/:]*:[^\s/]*@",
        plugin="basic_auth:BasicAuthDetector",
        accept=_basic_auth,
        tail=_NO_TAIL,
        group=1,
    ),
    SecretKind("Mailchimp key", ("-us",), "[0-9a-z]{32}-us[0-9]", plugin="mailchimp:MailchimpDetector"),
    SecretKind("Discord token", (".",), _DISCORD, plugin="discord:DiscordBotTokenDetector"),
    SecretKind("Telegram token", (":",), _TELEGRAM, plugin="telegram_token:TelegramBotTokenDetector"),
    SecretKind(
        "Azure storage key",
        ("AccountKey=",),
        plugin="azure_storage_key:AzureStorageKeyDetector",
        tail="=*",
    ),
    SecretKind("Square secret", ("sq0csp-",), plugin="square_oauth:SquareOAuthDetector"),
    SecretKind("Google key", ("AIza", "GOCSPX-", "ya29."), own=_GOOGLE),
    SecretKind("Hugging Face token", ("hf_",), own=_BEGINS + r"hf_[A-Za-z0-9]{30,}"),
    SecretKind("access token", ("dop_v1_", "dckr_pat_", "dapi", "xai-", "gsk_"), own=_OTHERS),
    SecretKind(
        "authorization header",
        ("authorization",),
        own=_HEADER,
        accept=_mixed,
        group="value",
        any_case=True,
    ),
    SecretKind(
        "assigned secret",
        ("token", "secret", "passw", "key", "credential"),
        own=ASSIGNED,
        accept=_mixed,
        group="value",
        any_case=True,
    ),
)
