"""Certificates that are reloaded while a service runs."""

from __future__ import annotations

import logging
import ssl

_LOGGER = logging.getLogger("shoal.web")


def reload(context: ssl.SSLContext | None, certificate: str | None, key: str | None) -> bool:
    """New connections get the certificate that is in the files now; an unusable one changes nothing."""
    if context is None or certificate is None:
        _LOGGER.warning("there is no certificate to read again")
        return False
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError):
        _LOGGER.error("the certificate cannot be read, the old one stays")  # noqa: TRY400 - the files are no secret, keys are
        return False
    _LOGGER.info("the certificate was read again")
    return True
