"""`adt-engine users`: accounts and API tokens, through the running engine's admin socket."""

from datetime import datetime
from typing import Annotated, Final

import typer

from engine.ops.access.administration import OF_ACCOUNTS, OF_TOKENS
from engine.ops.access.passwords import SHORTEST, SHORTEST_WITH_TOTP
from engine.ops.operations.access import (
    AccountView,
    AddToken,
    AddUser,
    DisableUser,
    EnableUser,
    Invitation,
    ListTokens,
    ListUsers,
    Named,
    RemoveUser,
    ResetPassword,
    RevokeToken,
    SetRole,
    SetSecondFactor,
    SetUp,
    TokenView,
)
from engine.ops.terminal.asking import asked
from engine.ops.terminal.options import DATA, Data, Json
from engine.ops.terminal.table import NEGATIVE, POSITIVE, cell, errors, output, say_json, table

app = typer.Typer(help="Manage accounts and API tokens.", no_args_is_help=True)
token_app = typer.Typer(help="API tokens: add, list, revoke.", no_args_is_help=True)
app.add_typer(token_app, name="token")

COLUMNS: Final = ("Account", "Role", "State", "Second factor", "Made (UTC)", "By")
TOKEN_COLUMNS: Final = ("Token", "Role", "Channels", "State", "Expires (UTC)", "Last used (UTC)", "By")

Name = Annotated[str, typer.Argument(help="The account's name.")]
Role = Annotated[str, typer.Option(help=f"One of {', '.join(OF_ACCOUNTS)}.")]


@app.command()
def setup(data: Data = DATA, as_json: Json = False) -> None:
    """Print the one-time token with which the first administrator chooses a name and password.

    It is valid for 30 minutes and one use. Refused if there is an administrator already.

    Example: adt-engine users setup --data /var/lib/adt-engine
    """
    _invite(asked(data, SetUp), as_json)


@app.command()
def add(name: Name, role: Role, data: Data = DATA, as_json: Json = False) -> None:
    """Create an account and print the one-time token with which its owner sets a password.

    Example: adt-engine users add ann --role operator --data /var/lib/adt-engine
    """
    _invite(asked(data, AddUser, name=name, role=role), as_json)


@app.command()
def password(name: Name, data: Data = DATA, as_json: Json = False) -> None:
    """Reset an account's password, end its sessions, and print a one-time token to set a new one.

    Example: adt-engine users password ann --data /var/lib/adt-engine
    """
    _invite(asked(data, ResetPassword, name=name), as_json)


@app.command(name="list")
def list_accounts(data: Data = DATA, as_json: Json = False) -> None:
    """List the accounts.

    Example: adt-engine users list --data /var/lib/adt-engine
    """
    rows = asked(data, ListUsers)
    if as_json:
        say_json(rows)
        return
    output().print(table(COLUMNS, (_account(row) for row in rows)))
    if not rows:
        output().print("no accounts yet: `adt-engine users setup` invites the first administrator")


@app.command()
def role(name: Name, role: Annotated[str, typer.Argument(help="The new role.")], data: Data = DATA) -> None:
    """Change an account's role, with immediate effect.

    Example: adt-engine users role ann viewer-phi --data /var/lib/adt-engine
    """
    _done(asked(data, SetRole, name=name, role=role), f"is {role} now")


@app.command()
def disable(name: Name, data: Data = DATA) -> None:
    """Disable an account and end its sessions.

    Example: adt-engine users disable ann --data /var/lib/adt-engine
    """
    _done(asked(data, DisableUser, name=name), "is disabled")


@app.command()
def enable(name: Name, data: Data = DATA) -> None:
    """Enable a disabled account.

    Example: adt-engine users enable ann --data /var/lib/adt-engine
    """
    _done(asked(data, EnableUser, name=name), "is enabled")


@app.command()
def remove(name: Name, data: Data = DATA) -> None:
    """Remove an account permanently; its name stays in the audit trail and cannot be reused.

    Example: adt-engine users remove ann --data /var/lib/adt-engine
    """
    _done(asked(data, RemoveUser, name=name), "is removed")


@app.command()
def totp(
    name: Name,
    required: Annotated[
        bool, typer.Option("--required/--optional", help="Whether a second factor is required.")
    ] = True,
    reset: Annotated[bool, typer.Option("--reset", help="Reset it, if the phone is lost.")] = False,
    data: Data = DATA,
) -> None:
    """Require a second factor of an account from its next log-in, or no longer; or reset the one it has.

    Example: adt-engine users totp ann --reset --data /var/lib/adt-engine
    """
    account = asked(data, SetSecondFactor, name=name, wanted=required, reset=reset)
    _done(account, f"{'must' if required else 'need not'} have a second factor")


@token_app.command(name="add")
def add_token(
    name: Annotated[str, typer.Argument(help="What the token is for.")],
    role: Annotated[str, typer.Option(help=f"One of {', '.join(OF_TOKENS)}.")],
    channel: Annotated[list[str] | None, typer.Option(help="Only for this channel; repeatable.")] = None,
    days: Annotated[int, typer.Option(min=1, max=366, help="How long it is valid.")] = 90,
    data: Data = DATA,
    as_json: Json = False,
) -> None:
    """Create an API token and print it, once only; `sender` may post messages and see nothing.

    Example: adt-engine users token add ehr-north --role sender --channel riverbend-adt --data /var/lib/adt-engine
    """
    given = {"name": name, "role": role, "channels": channel or [], "days": days}
    made = asked(data, AddToken, **given)
    if as_json:
        say_json(made)
        return
    output().print(made.token, soft_wrap=True, markup=False)
    _aside(f"{made.name}, {made.role}, until {_moment(made.expires_at)}: kept nowhere, write it down now")


@token_app.command(name="list")
def list_tokens(data: Data = DATA, as_json: Json = False) -> None:
    """List API tokens, including revoked and expired ones.

    Example: adt-engine users token list --data /var/lib/adt-engine
    """
    rows = asked(data, ListTokens)
    if as_json:
        say_json(rows)
        return
    output().print(table(TOKEN_COLUMNS, (_token(row) for row in rows)))


@token_app.command()
def revoke(name: Annotated[str, typer.Argument(help="The token's name.")], data: Data = DATA) -> None:
    """Revoke an API token immediately.

    Example: adt-engine users token revoke ehr-north --data /var/lib/adt-engine
    """
    _done(asked(data, RevokeToken, name=name), "is revoked")


def _invite(made: Invitation, as_json: bool) -> None:
    if as_json:
        say_json(made)
        return
    output().print(made.token, soft_wrap=True, markup=False)
    whose = made.name or "the first administrator"
    until = f"{_moment(made.expires_at)} UTC"
    _aside(
        f"for {whose}, good once until {until}: open /set-up of the engine's pages, give it there, and choose a "
        f"password of {SHORTEST} characters or more ({SHORTEST_WITH_TOTP} where one-time codes are asked for)"
    )


def _account(row: AccountView) -> tuple[object, ...]:
    state = row.state if row.password else f"{row.state}, no password yet"
    factor = "yes" if row.second_factor else "required" if row.second_factor_wanted else "no"
    good = row.state == "active"
    made = (_moment(row.made_at), row.made_by)
    return (row.name, row.role, cell(state, POSITIVE if good else NEGATIVE), factor, *made)


def _token(row: TokenView) -> tuple[object, ...]:
    expired = datetime.fromisoformat(row.expires_at) <= datetime.now().astimezone()
    state = "revoked" if row.revoked_at else "expired" if expired else "in force"
    channels = ", ".join(row.channels) or "all"
    ends = (_moment(row.expires_at), _moment(row.used_at) if row.used_at else "–", row.made_by)
    return (row.name, row.role, channels, cell(state, POSITIVE if state == "in force" else NEGATIVE), *ends)


def _done(answer: Named, what: str) -> None:
    output().print(f"{answer.name} {what}", markup=False)


def _aside(text: str) -> None:
    errors().print(text, soft_wrap=True, markup=False)


def _moment(text: str) -> str:
    return text[:16].replace("T", " ")
