"""The environment over HTTP: any agent that can send a diff can use it (extra ``server``).

Whoever has the operator's token opens sessions; a session's token opens that session alone. A
verdict's comparison with the fix is in the operator's results only, and a fix in no answer at all.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Annotated, Any

import uvicorn
from fastapi import Depends, FastAPI, Header, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException

from icml.core.errors import UserError
from icml.kenv.models import Patch, PublicBug
from icml.kenv.service import Refused, Service
from icml.kenv.session import FeedbackDisabled, RunsExhausted
from icml.kenv.wire import (
    ENDED,
    ArtifactName,
    Diff,
    NewSession,
    OpenedSession,
    Refusal,
    ResultRow,
    RunView,
    Submitted,
)

MOST_BYTES = 4 * 2**20
"""Of a request: a diff of 1 MiB, the most that the policy lets through, however it is escaped."""

_STATUS = {
    "unauthorized": 401,
    "feedback_disabled": 403,
    "unknown_bug": 404,
    "unknown_run": 404,
    "no_artifact": 404,
    "already_submitted": 409,
    "run_not_finished": 409,
    "runs_exhausted": 429,
}
_LOOK_S = 0.1  # between two looks at a run whose events somebody follows
_KEEP_ALIVE_S = 15.0

Asgi = Callable[[MutableMapping[str, Any], Any, Any], Awaitable[None]]


async def _token(authorization: Annotated[str, Header()] = "") -> str:
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise Refused("unauthorized", "this takes a token: send 'Authorization: Bearer TOKEN'")
    return token.strip()


Token = Annotated[str, Depends(_token)]


def create_app(service: Service) -> FastAPI:
    """Return the application that serves a service; it documents itself in ``/openapi.json``."""
    # The usual pages of documentation load scripts from elsewhere.
    app = FastAPI(title="icml-kenv", docs_url=None, redoc_url=None)
    app.add_middleware(_BodyLimit, most=MOST_BYTES)
    _add_refusals(app)
    _add_bugs(app, service)
    _add_sessions(app, service)
    _add_runs(app, service)
    return app


def _add_bugs(app: FastAPI, service: Service) -> None:
    @app.get("/v1/health")
    async def health() -> dict[str, Any]:
        return {"status": "ok", "backend": service.backend, "bugs": len(service.bugs)}

    @app.get("/v1/bugs")
    async def bugs(frozen: str = "", subsystem: str = "") -> list[PublicBug]:
        found = [service.bugs[name].public() for name in sorted(service.bugs)]
        if frozen and frozen != service.frozen:
            raise Refused("unknown_bug", f"this server has the snapshot {service.frozen or 'none'}")
        return [bug for bug in found if not subsystem or subsystem in bug.subsystems]

    @app.get("/v1/bugs/{bug_id}")
    async def bug(bug_id: str) -> PublicBug:
        return service.bug(bug_id).public()


def _add_sessions(app: FastAPI, service: Service) -> None:
    @app.post("/v1/sessions", status_code=201)
    def open_session(wanted: NewSession, token: Token) -> OpenedSession:
        service.check_operator(token)
        return service.open_session(wanted)

    @app.get("/v1/sessions/{session_id}/tree")
    def tree(session_id: str, token: Token) -> Response:
        session = service.session_of(token, session_id)
        return Response(service.tree(session), media_type="application/gzip")

    @app.post("/v1/sessions/{session_id}/runs", status_code=202)
    def run(session_id: str, body: Diff, token: Token) -> RunView:
        return service.run(service.session_of(token, session_id), Patch(diff=body.diff))

    @app.post("/v1/sessions/{session_id}/submit", status_code=202)
    def submit(session_id: str, body: Diff, token: Token) -> Submitted:
        return service.submit(service.session_of(token, session_id), Patch(diff=body.diff))

    @app.get("/v1/results")
    async def results(token: Token) -> list[ResultRow]:
        service.check_operator(token)
        return service.results()


def _add_runs(app: FastAPI, service: Service) -> None:
    @app.get("/v1/runs/{run_id}", response_model=RunView)
    async def view(run_id: str, token: Token) -> Response:
        # Agents poll this: written out at once, it is not checked a second time.
        found = service.view(service.session_of(token), run_id)
        return Response(found.model_dump_json(), media_type="application/json")

    @app.get("/v1/runs/{run_id}/events")
    async def events(run_id: str, token: Token) -> StreamingResponse:
        session = service.session_of(token)
        service.view(session, run_id)
        headers = {"Cache-Control": "no-store"}
        stream = _events(service, session, run_id)
        return StreamingResponse(stream, media_type="text/event-stream", headers=headers)

    @app.delete("/v1/runs/{run_id}")
    def cancel(run_id: str, token: Token) -> RunView:
        return service.cancel(service.session_of(token), run_id)

    @app.get("/v1/runs/{run_id}/artifacts/{name}")
    def artifact(run_id: str, name: ArtifactName, token: Token) -> PlainTextResponse:
        # As text, and never guessed to be anything else: a console is whatever a kernel prints.
        headers = {"X-Content-Type-Options": "nosniff"}
        text = service.artifact(service.session_of(token), run_id, name)
        return PlainTextResponse(text, headers=headers)


async def _events(service: Service, session: str, run_id: str) -> AsyncIterator[str]:
    """Yield a run's state now and at each change, and end with it."""
    told: str | None = None
    silent = 0.0
    while True:
        view = service.view(session, run_id)
        if view.state != told:
            told, silent = view.state, 0.0
            yield f"event: {view.state}\ndata: {view.model_dump_json()}\n\n"
        if view.state in ENDED:
            return
        if silent >= _KEEP_ALIVE_S:
            silent = 0.0
            yield ": still there\n\n"
        await asyncio.sleep(_LOOK_S)
        silent += _LOOK_S


def _add_refusals(app: FastAPI) -> None:
    def refuse(status: int, error: str, message: str) -> JSONResponse:
        refusal = Refusal(error=error, message=message)
        headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
        return JSONResponse(refusal.model_dump(), status, headers)

    @app.exception_handler(UserError)
    async def user_error(request: Request, error: UserError) -> JSONResponse:
        if isinstance(error, FeedbackDisabled):
            code = "feedback_disabled"
        elif isinstance(error, RunsExhausted):
            code = "runs_exhausted"
        else:
            code = error.code if isinstance(error, Refused) else "unavailable"
        return refuse(_STATUS.get(code, 503), code, str(error))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]  # what was sent is not sent back
        where = ".".join(str(part) for part in first["loc"])
        return refuse(422, "invalid_request", f"{where}: {first['msg']}")

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> JSONResponse:
        code = "too_large" if error.status_code == 413 else "invalid_request"
        return refuse(error.status_code, code, str(error.detail))


class _BodyLimit:
    """Refuses long bodies, by what they say of themselves and by what comes."""

    def __init__(self, app: Asgi, most: int) -> None:
        self._app, self._most = app, most

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        came = 0

        async def limited() -> MutableMapping[str, Any]:
            nonlocal came
            message = await receive()
            came += len(message.get("body", b""))
            if came > self._most:
                raise HTTPException(413, self._sentence)
            return message

        said = dict(scope.get("headers", ())).get(b"content-length", b"0")
        if said.isdigit() and int(said) <= self._most:
            await self._app(scope, limited, send)
        else:
            refusal = Refusal(error="too_large", message=self._sentence)
            await JSONResponse(refusal.model_dump(), 413)(scope, receive, send)

    @property
    def _sentence(self) -> str:
        return f"a request has at most {self._most} bytes"


def bind(host: str, port: int, *, allow_remote: bool = False) -> socket.socket:
    """Open the socket to serve on.

    Raises:
        UserError: If the address is not this machine's own and that was not allowed, or cannot be
            had.
    """
    if not 0 <= port <= 65535:  # the system would take it modulo 65536
        raise UserError(f"--port must be between 0 and 65535, got {port}")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        address = ipaddress.ip_address(found[4][0])
    except (OSError, ValueError) as error:
        raise UserError(f"no address {host!r} to serve on: {error}") from error
    if not address.is_loopback and not allow_remote:
        raise UserError(
            f"{host} can be reached from other machines, and tokens would travel in clear: serve on"
            " 127.0.0.1, or give --allow-remote behind a proxy with TLS"
        )
    opened = socket.socket(found[0], socket.SOCK_STREAM)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind(found[4])
        opened.listen(128)  # from now on clients wait instead of being refused
    except OSError as error:
        opened.close()
        raise UserError(f"cannot serve on {host}:{port}: {error.strerror}") from error
    return opened


def serve(service: Service, opened: socket.socket) -> None:
    """Serve until a signal ends it, and close the service."""
    config = uvicorn.Config(
        create_app(service),
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=3,  # s: for followers of events
        server_header=False,
    )
    try:
        uvicorn.Server(config).run(sockets=[opened])
    finally:
        service.close()
