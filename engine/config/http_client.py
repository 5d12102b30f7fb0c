"""The ordinary HTTP settings of a destination: fixed headers, the proxy, requests a second."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from ipaddress import ip_address, ip_network
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from engine.config.model import Frozen, Placed
from engine.config.secret import Secret
from engine.config.settings import environment
from engine.config.text import Line, is_host, shaped

# What the engine or its connection sends by itself, or a signature covers; names in lower case.
OWN_HEADERS: Final[Mapping[str, str]] = {
    "accept": "the engine asks for FHIR's JSON",
    "accept-encoding": "the engine asks for no compression",
    "authorization": "credentials are described in auth",
    "cache-control": "the engine asks for fresh answers",
    "connection": "the engine keeps its connections by itself",
    "content-encoding": "the engine sends no compressed bodies",
    "content-length": "the engine counts each body",
    "content-type": "the engine names the type of each body",
    "date": "the engine dates what it signs",
    "expect": "the engine sends each request whole",
    "host": "it is the host of base_url",
    "if-match": "the engine names the version that it has read",
    "if-modified-since": "the engine asks for fresh answers",
    "if-none-exist": "its criteria are described in if_none_exist",
    "if-none-match": "the engine asks for fresh answers",
    "keep-alive": "the engine keeps its connections by itself",
    "prefer": "the engine asks for the answers that it needs",
    "proxy-authorization": "credentials are described in proxy_user and proxy_password",
    "proxy-connection": "the engine keeps its connections by itself",
    "te": "the engine takes whole answers",
    "trailer": "the engine sends none",
    "transfer-encoding": "the engine sends each body with its length",
    "upgrade": "the engine speaks HTTP/1.1",
    "user-agent": "the engine names itself",
}
# Headers of AWS: the engine writes and signs them.
OWN_PREFIX: Final = "x-amz-"
MOST_HEADERS: Final = 50
# RFC 9110, 5.6.2.
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}", re.ASCII)
# RFC 9110, 5.5, without `obs-text`: what is not of ASCII, each server reads in a way of its own.
_VALUE: Final = re.compile(r"[!-~](?:[ -~\t]{0,4094}[!-~])?", re.ASCII)
_PLAIN_LINE: Final = "one line of ASCII, without blanks around it and of at most 4096 characters"
_CREDENTIAL: Final = re.compile(r"api[-_]?key|token|secret|password|passwd|credential|subscription-key", re.IGNORECASE)


def is_header_value(text: str) -> bool:
    """Say whether a text may be sent as the value of a header: printable ASCII without blanks around it."""
    return _VALUE.fullmatch(text) is not None


def token(name: str) -> str:
    """Return the name of a header; ValueError where it is none."""
    if not _TOKEN.fullmatch(name):
        raise ValueError("a header's name of letters, digits and -, such as X-Tenant")
    return name


def _header_name(name: str) -> str:
    token(name)
    why = OWN_HEADERS.get(name.lower()) or ("the engine signs them" if name.lower().startswith(OWN_PREFIX) else "")
    if why:
        raise ValueError(f"leave it out: {why}")
    return name


def plain_header_value(text: str) -> str:
    """Return the value of a header; a fault that does not show it where it is none."""
    if not is_header_value(text):
        raise PydanticCustomError("no_header", _PLAIN_LINE)
    return text


class HeaderValue(Secret):
    """The value of a header: a text, or a reference to a secret."""

    text: Annotated[str, AfterValidator(plain_header_value)] | None = Field(
        None, description="the value itself, where it is no secret", repr=False
    )

    @model_validator(mode="before")
    @classmethod
    def _reference(cls, value: Any) -> Any:
        return value

    @model_validator(mode="after")
    def _one(self) -> "HeaderValue":
        if sum(given is not None for given in (self.env, self.file, self.text)) != 1:
            raise ValueError("give a text, {env: NAME} or {file: PATH}")
        return self

    def unavailable(self) -> Iterator[Placed]:
        """Yield why the value cannot be read now, or be sent; never the value."""
        yield from super().unavailable()
        key = "env" if self.env is not None else "file"
        with suppress(LookupError):
            if not is_header_value(self.read()):
                yield (key,), "it holds what no header can have", _PLAIN_LINE

    def read(self) -> str:
        """Return the value; LookupError names the reference, never the secret."""
        return super().read() if self.text is None else self.text


def _text_or_reference(value: Any) -> Any:
    return {"text": value} if isinstance(value, str) else value


def _distinct(headers: dict[str, HeaderValue]) -> dict[str, HeaderValue]:
    names = [name.lower() for name in headers]
    twice = next((name for name in headers if names.count(name.lower()) > 1), "")
    if twice:
        raise ValueError(f"write each header once: {twice} stands there in two spellings")
    return headers


Headers = Annotated[
    dict[
        Annotated[str, AfterValidator(_header_name)],
        Annotated[HeaderValue, BeforeValidator(_text_or_reference, json_schema_input_type=str | HeaderValue)],
    ],
    AfterValidator(_distinct),
]


def looks_like_credential(name: str) -> bool:
    """Say whether a header's name says that its value is a credential."""
    return _CREDENTIAL.search(name) is not None


def header_warnings(headers: Mapping[str, HeaderValue]) -> Iterator[Placed]:
    """Yield the headers whose name says that they are credentials, and whose value is written in the file."""
    for name, value in headers.items():
        if value.text is not None and looks_like_credential(name):
            yield ("headers", name), "what looks like a credential, written in the file", "refer to it: {env: NAME}"


ENVIRONMENT: Final = "environment"
_VARIABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "https": ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"),
    "http": ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"),
}
_SET_IT: Final = "set it to an address such as http://proxy.example:3128"


class ProxyAddress(NamedTuple):
    """Where a proxy listens."""

    host: str
    port: int


def _proxy(text: str) -> str:
    if text in {"", ENVIRONMENT}:
        return text
    if "@" in text:
        raise PydanticCustomError("literal_secret", "a URL holds no credentials; use proxy_user and proxy_password")
    if _address(text) is None or urlsplit(text).port is None:
        raise ValueError("give http:// with host and port, such as http://proxy.example:3128, or the word environment")
    return text


Proxy = Annotated[str, AfterValidator(_proxy)]
# RFC 7617, 2: what follows the first colon is the password.
ProxyUser = Annotated[Line, shaped(r"[^:]*", "a name without a colon")]


def proxy_address(url: str) -> ProxyAddress:
    """Return where the proxy of a checked URL listens."""
    parts = urlsplit(url)
    return ProxyAddress(parts.hostname or "", parts.port or 80)


def _address(url: str) -> ProxyAddress | None:
    """Return where a proxy listens; None where a text is no `http://host`, with or without a port."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or 80
    except ValueError:
        return None
    is_bare = parts.path in {"", "/"} and not parts.query and not parts.fragment
    is_printable = url.isascii() and url.isprintable() and " " not in url
    return ProxyAddress(host, port) if parts.scheme == "http" and is_bare and is_printable and is_host(host) else None


class EnvironmentProxy(NamedTuple):
    """A proxy as a variable of the environment names it; `credentials` are user and password, None without any."""

    address: ProxyAddress
    credentials: tuple[str, str] | None

    def __repr__(self) -> str:
        return f"EnvironmentProxy({self.address.host}:{self.address.port})"


def environment_proxy(scheme: str) -> EnvironmentProxy | None:
    """Return the proxy for `http` or `https` of the environment, None for none.

    LookupError names a variable that holds no address of a proxy that speaks HTTP, never what it holds.
    """
    name = next(filter(environment, _VARIABLES[scheme]), "")
    if not name:
        return None
    text = environment(name)
    before, at, after = (text if "://" in text else f"http://{text}").rpartition("@")
    user_scheme, _, userinfo = before.partition("://")
    address = _address(f"{user_scheme}://{after}" if at else after)
    if address is None:
        raise LookupError(f"the environment variable {name} holds no address of a proxy that speaks http")
    user, _, password = userinfo.partition(":")
    return EnvironmentProxy(address, (unquote(user), unquote(password)) if at else None)


def is_bypassed(host: str, port: int) -> bool:
    """Say whether NO_PROXY names a host: as `*`, by its name or a domain above it, as an address or a network.

    A name or an address may have a port, which then counts too.
    """
    text = environment("no_proxy") or environment("NO_PROXY")
    return any(_names(entry.strip().lower(), host.lower(), port) for entry in text.split(",") if entry.strip())


def _names(entry: str, host: str, port: int) -> bool:
    if entry == "*":
        return True
    name, colon, number = entry.rpartition(":")
    if colon and number.isdigit() and (":" not in name or name.endswith("]")):
        if int(number) != port:
            return False
        entry = name
    entry = entry.strip("[]")
    try:
        address = ip_address(host)
    except ValueError:
        domain = entry.removeprefix("*").strip(".")
        return bool(domain) and (host.rstrip(".") == domain or host.rstrip(".").endswith(f".{domain}"))
    try:
        return address in ip_network(entry, strict=False)
    except ValueError:
        return False


def unusable_proxies() -> Iterator[Placed]:
    """Yield the variables of the environment that name no proxy that can be used."""
    faults = set()
    for scheme in _VARIABLES:
        try:
            environment_proxy(scheme)
        except LookupError as error:
            faults.add(str(error))
    yield from ((("proxy",), fault, _SET_IT) for fault in sorted(faults))


class Rate(Frozen):
    """How many requests a destination gets, by a token bucket; each node of a cluster has its own."""

    requests_per_second: float = Field(
        gt=0, le=100_000, description="requests a second in the long run, reads included", examples=["50"]
    )
    burst: int = Field(10, ge=1, le=100_000, description="requests that may go at once after a pause")
