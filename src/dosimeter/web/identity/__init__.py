"""Users and their passwords, sessions, API tokens, and how often a password may be tried.

Takes names, passwords and keys; gives a User, or refuses. Keeps digests only, never a password or a key; knows no pages
and no datasets.
"""

from dosimeter.web.identity.addresses import group_address
from dosimeter.web.identity.name_turns import NameTurns
from dosimeter.web.identity.password_queue import PasswordQueue, TooManyAttempts
from dosimeter.web.identity.throttle import PAUSE, Limits, Throttled, clean_name, refuse_throttled
from dosimeter.web.identity.users import (
    SessionEnded,
    SignedIn,
    add_user,
    change_password,
    disable_user,
    end_everything,
    end_other_session,
    end_session,
    find_session,
    find_token,
    list_sessions,
    list_tokens,
    list_users,
    make_token,
    reset_password,
    revoke_token,
    sign_in,
    signed_in_from,
)
