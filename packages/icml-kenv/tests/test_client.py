"""The client against what is no server of ours."""

from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from icml.core.errors import UserError
from icml.kenv.client import ApiError, Client


def refusal(function, *arguments) -> tuple[int, str, str]:
    with pytest.raises(ApiError) as refused:
        function(*arguments)
    return refused.value.status, refused.value.error, str(refused.value)


class _Stranger(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status = int(self.path.split("/")[1])
        body = {200: b"<html>", 203: b"{}", 302: b""}[status]
        self.send_response(status)
        self.send_header("Location", "http://127.0.0.1:9/")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments) -> None:
        pass


@pytest.mark.parametrize("status", [200, 203, 302])
def test_another_kind_of_server_is_one_sentence(status, tmp_path) -> None:
    with HTTPServer(("127.0.0.1", 0), _Stranger) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        client = Client(f"http://127.0.0.1:{server.server_port}/{status}", token="a.b")
        for ask in (client.view, client.results, client.bugs):
            found = refusal(ask, *(["x"] if ask == client.view else []))
            assert found[:2] == (status, "unknown")
            assert found[2].endswith(f"answered {status}: is it a server of icml-kenv?")
        assert refusal(client.checkout, tmp_path / "tree")[:2] == (status, "unknown")
        server.shutdown()


@pytest.mark.parametrize("token", ["é", "a\nb"])
def test_a_token_that_no_header_carries_is_refused_at_once(token) -> None:
    with pytest.raises(UserError, match="the token has letters"):
        Client("http://127.0.0.1:9", token=token)
