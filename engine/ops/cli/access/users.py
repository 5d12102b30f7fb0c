"""`adt-engine users`: accounts and API tokens, through the running engine's admin socket."""

from datetime import datetime
from typing import Final

import typer

from engine.ops.access.administration import OF_ACCOUNTS, OF_TOKENS
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
    NewToken,
    RemoveUser,
    ResetPassword,
    RevokeToken,
    SetRole,
    SetSecondFactor,
    SetUp,
    TokenView,
)
from engine.ops.terminal.command import ask, asks, takes
from engine.security.passwords import SHORTEST, SHORTEST_WITH_TOTP
from engine.terminal.options import DATA, AsJson, Data
from engine.terminal.table import NEGATIVE, POSITIVE, cell, note, output, print_json, print_line, remark, table, utc

app = typer.Typer(help="Manage accounts and API tokens.", no_args_is_help=True)
token_app = typer.Typer(help="API tokens: add, list, revoke.", no_args_is_help=True)
app.add_typer(token_app, name="token")

COLUMNS: Final = ("Account", "Role", "State", "Second factor", "Made (UTC)", "By")
TOKEN_COLUMNS: Final = ("Token", "Role", "Channels", "State", "Expires (UTC)", "Last used (UTC)", "By")

REQUIRED: Final = typer.Option(True, "--required/--optional", help="Whether a second factor is required.")  # noqa: FBT003


@app.command()
@asks(SetUp)
def setup(made: Invitation) -> None:
    """Print the one-time token with which the first administrator chooses a name and password.

    It is valid for 30 minutes and one use. Refused if there is an administrator already.

    Example: adt-engine users setup --data /var/lib/adt-engine
    """
    _invite(made)


@app.command()
@asks(AddUser, name="NAME", role=typer.Option(..., help=f"One of {', '.join(OF_ACCOUNTS)}."))
def add(made: Invitation) -> None:
    """Create an account and print the one-time token with which its owner sets a password.

    Example: adt-engine users add ann --role operator --data /var/lib/adt-engine
    """
    _invite(made)


@app.command()
@asks(ResetPassword, name="NAME")
def password(made: Invitation) -> None:
    """Reset an account's password, end its sessions, and print a one-time token to set a new one.

    Example: adt-engine users password ann --data /var/lib/adt-engine
    """
    _invite(made)


@app.command(name="list")
@asks(ListUsers)
def list_accounts(rows: list[AccountView]) -> None:
    """List the accounts.

    Example: adt-engine users list --data /var/lib/adt-engine
    """
    output().print(table(COLUMNS, (_account(row) for row in rows)))
    if not rows:
        remark("no accounts yet: `adt-engine users setup` invites the first administrator")


@app.command()
@takes(SetRole, name="NAME", role="ROLE")
def role(request: SetRole, data: Data = DATA, as_json: AsJson = False) -> None:
    """Change an account's role, with immediate effect.

    Example: adt-engine users role ann viewer-phi --data /var/lib/adt-engine
    """
    account = ask(data, request)
    if as_json:
        print_json(account)
    else:
        print_line(f"{account.name} is {request.role} now")


@app.command()
@asks(DisableUser, name="NAME")
def disable(account: Named) -> None:
    """Disable an account and end its sessions.

    Example: adt-engine users disable ann --data /var/lib/adt-engine
    """
    print_line(f"{account.name} is disabled")


@app.command()
@asks(EnableUser, name="NAME")
def enable(account: Named) -> None:
    """Enable a disabled account.

    Example: adt-engine users enable ann --data /var/lib/adt-engine
    """
    print_line(f"{account.name} is enabled")


@app.command()
@asks(RemoveUser, name="NAME")
def remove(account: Named) -> None:
    """Remove an account permanently; its name stays in the audit trail and cannot be reused.

    Example: adt-engine users remove ann --data /var/lib/adt-engine
    """
    print_line(f"{account.name} is removed")


@app.command()
@takes(
    SetSecondFactor,
    name="NAME",
    wanted=REQUIRED,
)
def totp(request: SetSecondFactor, data: Data = DATA, as_json: AsJson = False) -> None:
    """Require a second factor of an account from its next log-in, or no longer; or reset the one it has.

    Example: adt-engine users totp ann --reset --data /var/lib/adt-engine
    """
    account = ask(data, request)
    if as_json:
        print_json(account)
    else:
        print_line(f"{account.name} {'must' if request.wanted else 'need not'} have a second factor")


@token_app.command(name="add")
@asks(
    AddToken,
    name="NAME",
    role=typer.Option(..., help=f"One of {', '.join(OF_TOKENS)}."),
    channels=typer.Option(None, "--channel", help="Only for this channel; repeatable."),
)
def add_token(made: NewToken) -> None:
    """Create an API token and print it, once only; `sender` may post messages and see nothing.

    Example: adt-engine users token add ehr-north --role sender --channel riverbend-adt --data /var/lib/adt-engine
    """
    print_line(made.token)
    note(f"{made.name}, {made.role}, until {utc(made.expires_at)[:16]}: kept nowhere, write it down now")


@token_app.command(name="list")
@asks(ListTokens)
def list_tokens(rows: list[TokenView]) -> None:
    """List API tokens, including revoked and expired ones.

    Example: adt-engine users token list --data /var/lib/adt-engine
    """
    output().print(table(TOKEN_COLUMNS, (_token(row) for row in rows)))


@token_app.command()
@asks(RevokeToken, name="NAME")
def revoke(token: Named) -> None:
    """Revoke an API token immediately.

    Example: adt-engine users token revoke ehr-north --data /var/lib/adt-engine
    """
    print_line(f"{token.name} is revoked")


def _invite(made: Invitation) -> None:
    print_line(made.token)
    note(
        f"for {made.name or 'the first administrator'}, valid once until {utc(made.expires_at)[:16]} UTC: open /set-up "
        f"of the engine's pages, enter it there, and choose a password of {SHORTEST} characters or more "
        f"({SHORTEST_WITH_TOTP} where one-time codes are required)"
    )


def _account(row: AccountView) -> tuple[object, ...]:
    state = row.state if row.password else f"{row.state}, no password yet"
    factor = "yes" if row.second_factor else "required" if row.second_factor_wanted else "no"
    good = row.state == "active"
    made = (utc(row.made_at)[:16], row.made_by)
    return (row.name, row.role, cell(state, POSITIVE if good else NEGATIVE), factor, *made)


def _token(row: TokenView) -> tuple[object, ...]:
    expired = datetime.fromisoformat(row.expires_at) <= datetime.now().astimezone()
    state = "revoked" if row.revoked_at else "expired" if expired else "in force"
    channels = ", ".join(row.channels) or "all"
    ends = (utc(row.expires_at)[:16], utc(row.used_at)[:16] if row.used_at else "–", row.made_by)
    return (row.name, row.role, channels, cell(state, POSITIVE if state == "in force" else NEGATIVE), *ends)
