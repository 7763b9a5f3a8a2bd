"""What every request shares: who is asking, CSRF tokens, pages, refusals, limits of a connection.

Takes requests and the server's state; gives users, rendered pages and refusals in one shape. Never decides anything
about a query, and shows an analyst nothing but values of ``public``.
"""

from dosimeter.web.http.connections import QUEUE, make_server
from dosimeter.web.http.csrf import ENTRY_COOKIE, MOST_FIELDS, check_csrf, entry_csrf, is_own, make_csrf
from dosimeter.web.http.devices import DEVICE_COOKIE, KEPT, Device, find_device, write_device
from dosimeter.web.http.exceptions import NotSignedIn, Refused, require_found
from dosimeter.web.http.fields import Filter, Reason, Remark, Words
from dosimeter.web.http.middleware import SecurityMiddleware
from dosimeter.web.http.refusals import note_refusal, refuse, send_to_sign_in
from dosimeter.web.http.templates import (
    NOTICE_COOKIE,
    make_environment,
    render,
    render_public,
    send_file,
    show_moment,
    show_progress,
)
from dosimeter.web.http.visitors import (
    SESSION_COOKIE,
    Analyst,
    Checks,
    Controller,
    NameTurnsOf,
    PasswordQueueOf,
    StateOf,
    Trials,
    Visitor,
    find_address,
    find_visitor,
    find_way_back,
    require_dataset,
    require_some_dataset,
)
