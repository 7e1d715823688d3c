"""An authorization server with Django OAuth Toolkit, configured as its documentation recommends.

The tests of this folder run it in an environment without mcptrio. It serves metadata, keys, introspection, revocation,
registration, a login and a consent page. The toolkit makes all decisions of OAuth. This file adds the form of access
tokens, which the toolkit leaves to its users (``ACCESS_TOKEN_GENERATOR``), and ``/control/rotate``.

Its argument is a JSON object with ``users`` (name to password) and ``clients`` (objects with ``id``, ``secret``,
``grant``, ``redirect_uris``, ``owner``).

Source: django-oauth-toolkit 3.4; RFC 9068 section 2.
"""

from __future__ import annotations

import json
import secrets
import sys
import time
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import django
from django.conf import settings
from jwcrypto import jwk, jwt

__all__: list[str] = []


def new_key() -> str:
    return jwk.JWK.generate(kty="RSA", size=2048).export_to_pem(private_key=True, password=None).decode()


def configure(database: Path) -> None:
    settings.configure(
        SECRET_KEY=secrets.token_hex(),
        ALLOWED_HOSTS=["127.0.0.1"],
        ROOT_URLCONF=__name__,
        USE_TZ=True,
        DATABASES={
            "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": database, "OPTIONS": {"timeout": 20}},
        },
        # Tables are created from the models; running the migrations takes four seconds.
        MIGRATION_MODULES={"auth": None, "contenttypes": None, "oauth2_provider": None, "sessions": None},
        # As Django's page on testing recommends: the default hasher takes half a second a request.
        PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
        INSTALLED_APPS=[
            "django.contrib.auth",
            "django.contrib.contenttypes",
            "django.contrib.sessions",
            "oauth2_provider",
        ],
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.middleware.common.CommonMiddleware",
            "django.middleware.csrf.CsrfViewMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
        ],
        TEMPLATES=[
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "OPTIONS": {
                    "context_processors": ["django.template.context_processors.request"],
                    "loaders": [
                        ("django.template.loaders.locmem.Loader", {"registration/login.html": LOGIN}),
                        "django.template.loaders.app_directories.Loader",
                    ],
                },
            }
        ],
        LOGIN_URL="/login/",
        OAUTH2_PROVIDER={
            "OIDC_ENABLED": True,
            "OIDC_RSA_PRIVATE_KEY": new_key(),
            "ACCESS_TOKEN_GENERATOR": access_token,
            "ACCESS_TOKEN_EXPIRE_SECONDS": 600,
            "SCOPES": {"read": "Read notes", "write": "Write notes", "introspection": "Ask about tokens"},
            "DEFAULT_SCOPES": ["read"],
            "DCR_ENABLED": True,
            "DCR_REGISTRATION_PERMISSION_CLASSES": ("oauth2_provider.dcr.AllowAllDCRPermission",),
            "OAUTH2_TOKEN_ENDPOINT_AUTH_METHODS_SUPPORTED": ["none", "client_secret_post", "client_secret_basic"],
            "COMPLIANT_BCP_RFC9700_IMPLICIT_GRANT": True,
            "COMPLIANT_BCP_RFC9700_PASSWORD_GRANT": True,
            "COMPLIANT_BCP_RFC9700_PKCE_METHOD": True,
            "COMPLIANT_BCP_RFC9700_ACCESS_TOKEN_TRANSPORT": True,
            "COMPLIANT_BCP_RFC9700_AUTHZ_RESPONSE_ISS": True,
            "COMPLIANT_BCP_RFC9700_TOKEN_STORAGE": True,
            "REFRESH_TOKEN_REUSE_PROTECTION": True,
            "ALLOWED_SCHEMES": ["http", "https"],
        },
    )


LOGIN = '<form method="post">{% csrf_token %}{{ form }}<input type="submit" value="Log in"></form>'


def access_token(request: Any) -> str:
    """Return a JWT access token (RFC 9068)."""
    from oauth2_provider.settings import oauth2_settings
    from oauth2_provider.utils import jwk_from_pem

    key = jwk_from_pem(oauth2_settings.OIDC_RSA_PRIVATE_KEY)
    user = getattr(request, "user", None) if request.grant_type != "client_credentials" else None
    now = int(time.time())
    resource = getattr(request, "resource", None)
    claims = {
        "iss": issuer(),
        "sub": user.get_username() if user is not None else request.client.client_id,
        "client_id": request.client.client_id,
        "aud": resource or "nobody",
        "scope": " ".join(request.scopes),
        "iat": now,
        "exp": now + request.expires_in,
        "jti": secrets.token_urlsafe(),
    }
    token = jwt.JWT(header={"alg": "RS256", "typ": "at+jwt", "kid": key.thumbprint()}, claims=claims)
    token.make_signed_token(key)
    text: str = token.serialize()
    return text


def issuer() -> str:
    return str(settings.ISSUER)


def rotate(request: Any) -> Any:
    """Change to a new key; keep publishing the old one or not."""
    from django.http import HttpResponse
    from oauth2_provider.settings import oauth2_settings

    old = oauth2_settings.OIDC_RSA_PRIVATE_KEY
    oauth2_settings.OIDC_RSA_PRIVATE_KEY = new_key()
    oauth2_settings.OIDC_RSA_PRIVATE_KEYS_INACTIVE = [old] if request.GET.get("keep") else []
    return HttpResponse(status=204)


def fill(given: dict[str, Any]) -> None:
    from django.contrib.auth import get_user_model
    from django.core.management import call_command
    from oauth2_provider.models import get_application_model

    call_command("migrate", run_syncdb=True, verbosity=0)
    users = {
        name: get_user_model().objects.create_user(name, password=password) for name, password in given["users"].items()
    }
    for client in given["clients"]:
        get_application_model().objects.create(
            client_id=client["id"],
            client_secret=client["secret"],
            client_type="confidential",
            authorization_grant_type=client["grant"],
            redirect_uris=" ".join(client.get("redirect_uris", ())),
            user=users.get(client.get("owner")),
            name=client["id"],
        )


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class Handler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


def main() -> None:
    given = json.loads(sys.argv[1])
    configure(Path("authorization.sqlite3").resolve())
    django.setup()
    fill(given)
    from django.core.wsgi import get_wsgi_application

    with make_server("127.0.0.1", 0, get_wsgi_application(), Server, Handler) as server:
        settings.ISSUER = f"http://127.0.0.1:{server.server_port}"
        print(f"serving {settings.ISSUER}/", file=sys.stderr, flush=True)
        server.serve_forever()


def __getattr__(name: str) -> Any:
    """Load the routes on demand: Django requires them after it is configured."""
    if name != "urlpatterns":
        raise AttributeError(name)
    from django.contrib.auth.views import LoginView
    from django.urls import include, path

    return [
        path("login/", LoginView.as_view()),
        path("control/rotate", rotate),
        path("", include("oauth2_provider.urls", namespace="oauth2_provider")),
    ]


if __name__ == "__main__":
    main()
