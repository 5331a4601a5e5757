"""Certificates of any template: read from a file or a text, and judged."""

from __future__ import annotations

from pathlib import Path

from icml.wzllm.certificate import MAX_FILE, BadCertificate, Certificate, json_content
from icml.wzllm.cfinite_certificate import CFINITE_FORMAT, CFiniteCertificate

__all__ = ["AnyCertificate", "certificate_from_json", "read_certificate"]

AnyCertificate = Certificate | CFiniteCertificate


def certificate_from_json(text: str) -> AnyCertificate:
    """Read a certificate's text; nothing in it is believed (``verify`` checks it).

    Raises:
        BadCertificate: If it isn't JSON of a known format, or has other fields than that.
        BadStatement: If the identity in it isn't a statement.
    """
    content = json_content(text)
    if isinstance(content, dict) and content.get("format") == CFINITE_FORMAT:
        return CFiniteCertificate.from_content(content)
    return Certificate.from_content(content)


def read_certificate(path: Path) -> AnyCertificate:
    """Read a certificate's file.

    Raises:
        BadCertificate: If the file can't be read, is too large, or isn't a certificate.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE + 1)
        if len(content) > MAX_FILE:
            raise BadCertificate(f"{path} is larger than {MAX_FILE} bytes")
        return certificate_from_json(content.decode("utf-8"))
    except OSError as error:
        raise BadCertificate(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError:
        raise BadCertificate(f"{path} isn't text in UTF-8") from None
