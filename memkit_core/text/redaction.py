"""What must not be stored: `SecretRedactor` takes API keys, tokens and card numbers out of a text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

# The published forms of keys and tokens. Most are those of detect-secrets 1.5.0 (Apache-2.0), which is not
# used itself: it brings a web client, checks found keys online, and knows no Anthropic, Google or Hugging
# Face keys. Each is linear in the text: no repetition stands inside another one.
_WORD = r"(?<![A-Za-z0-9_-])"
_KEYS = (
    r"sk-[A-Za-z0-9_-]{20,}",  # OpenAI, Anthropic, DeepSeek, OpenRouter, Stripe-like
    r"(?:sk|rk|pk)_(?:live|test)_[0-9A-Za-z]{16,}",  # Stripe
    r"(?:A3T[A-Z0-9]|ABIA|ACCA|AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Z])",  # AWS key ids
    r"AIza[0-9A-Za-z_-]{35}",  # Google
    r"SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}",  # SendGrid
    r"(?:AC|SK)[a-f0-9]{32}(?![A-Za-z0-9])",  # Twilio
    r"[0-9a-f]{32}-us[0-9]{1,2}(?![A-Za-z0-9])",  # Mailchimp
    r"sq0csp-[0-9A-Za-z_-]{43}",  # Square
    r"(?:gsk|xai|r8|pplx|nvapi)[_-][A-Za-z0-9_-]{32,}",  # Groq, xAI, Replicate, Perplexity, NVIDIA
)
_TOKENS = (
    r"gh[pousr]_[A-Za-z0-9_]{36,}",
    r"github_pat_[A-Za-z0-9_]{22,}",
    r"gl(?:pat|dt|ft|soat|rt|cbt|imt|ptt|agent|oas)-[A-Za-z0-9_-]{20,}",
    r"xox[abposr]-[A-Za-z0-9-]{10,}",
    r"hf_[A-Za-z0-9]{30,}",
    r"npm_[A-Za-z0-9]{36,}",
    r"pypi-[A-Za-z0-9_-]{70,}",
    r"eyJ[A-Za-z0-9_=-]{8,}\.eyJ[A-Za-z0-9_=-]{2,}(?:\.[A-Za-z0-9_.+/=-]*)?",  # JSON Web Tokens
    r"[0-9]{8,10}:[0-9A-Za-z_-]{35}(?![0-9A-Za-z_-])",  # Telegram bots
)
_NAMED = re.compile(
    r"(?P<name>(?:api[ _-]?key|secret[ _-]?(?:access[ _-]?)?key|access[ _-]?token|auth[ _-]?token|"
    r"client[ _-]?secret|password|passwd|密码|口令)[\"']?\s{0,3}(?:[:=：]|\bis\b|是|为)\s{0,3}[\"']?)"  # noqa: RUF001 - as it is written in Chinese
    r"(?P<value>[^\s\"'<>\[\],;，。；]{6,200})",  # noqa: RUF001 - as above
    re.IGNORECASE,
)
_BEARER = re.compile(r"(?P<name>\bBearer\s{1,3})(?P<value>[A-Za-z0-9._~+/=-]{16,})", re.IGNORECASE)
_PRIVATE = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----[^-]*(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?"
)
_CARD = re.compile(r"(?<![\w.+-])[2-6]\d(?:[ -]?\d){11,17}(?![\w-]|\.\d)", re.ASCII)
_FORMS: Mapping[str, re.Pattern[str]] = {
    "private_key": _PRIVATE,
    "api_key": re.compile(_WORD + f"(?:{'|'.join(_KEYS)})"),
    "token": re.compile(_WORD + f"(?:{'|'.join(_TOKENS)})"),
}
_SHORTEST_CARD, _LONGEST_CARD = 13, 19


class SecretRedactor:
    """A `Config.redact` that puts `[api_key]`, `[token]` and so on in the place of secrets. Thread-safe.

    It finds API keys and tokens by their published forms, private keys, what follows "api key:",
    "password is", 密码是 and the like or "Bearer", and card numbers of 13 to 19 digits whose check digit
    is right (Luhn). Linear in the text. What has no form of its own is not found: this is a net
    under a careless paste, not a guarantee.
    """

    def __call__(self, text: str) -> str:
        """The text without its secrets, the same object when there are none."""
        return self.redact(text)[0]

    def redact(self, text: str) -> tuple[str, Counter[str]]:
        """The text without its secrets, and how many of each kind were found.

        The kinds are `private_key`, `api_key`, `token`, `password` and `card_number`.
        """
        found: Counter[str] = Counter()
        for kind, form in _FORMS.items():
            text, count = form.subn(f"[{kind}]", text)
            found[kind] += count
        for kind, form in (("token", _BEARER), ("password", _NAMED)):
            text, count = form.subn(rf"\g<name>[{kind}]", text)
            found[kind] += count

        def hidden(match: re.Match[str]) -> str:
            if not is_card_number(match[0]):
                return match[0]
            found["card_number"] += 1
            return "[card_number]"

        return _CARD.sub(hidden, text), +found


def is_card_number(text: str) -> bool:
    """Whether the digits of `text` are as many as a card number has and pass its check (ISO/IEC 7812-1, Luhn)."""
    digits = [int(char) for char in text if char.isdigit()]
    if not _SHORTEST_CARD <= len(digits) <= _LONGEST_CARD:
        return False
    doubled = (sum(divmod(2 * digit, 10)) for digit in digits[-2::-2])
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0
