"""The manifests of docs/replicas-in-production.md have known fields and valid settings, and their Redis works."""

from __future__ import annotations

import os
import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest
import trio
import yaml
from mcptrio_store_redis.tools import acl_line, check

from mcptrio.serve.config import keys, load_config
from mcptrio.settings.reader import variable_of
from tests.processes import held_port
from tests.replicas.processes import Program, program_path, until_listening
from tests.test_readme import blocks_of

__all__: list[str] = []

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "replicas-in-production.md"
BLOCKS: Final = list(blocks_of(PAGE.read_text("utf-8"), PAGE.stem))
STORE_SECONDS: Final = 5
"""Seconds for which a replica that stops completes its streams in the store, after its requests have ended."""

# Fields of the Compose specification and of Kubernetes 1.32, as far as the page may use them. A misspelled field of the
# page is missing here.
COMPOSE_FIELDS: Final = {
    "": {"services", "volumes", "secrets"},
    "service": {
        *("build", "command", "depends_on", "environment", "healthcheck", "image", "ports", "restart", "secrets"),
        *("stop_grace_period", "volumes"),
    },
    "healthcheck": {"test", "interval", "timeout", "retries", "start_period"},
}
KUBERNETES_FIELDS: Final = {
    "object": {"apiVersion", "kind", "metadata", "spec", "data"},
    "metadata": {"name", "labels", "annotations"},
    "Deployment": {"replicas", "selector", "strategy", "template"},
    "PodDisruptionBudget": {"minAvailable", "selector"},
    "Service": {"selector", "ports"},
    "Ingress": {"ingressClassName", "tls", "rules"},
    "pod": {"containers", "terminationGracePeriodSeconds", "topologySpreadConstraints", "volumes"},
    "container": {
        *("name", "image", "args", "ports", "resources", "securityContext", "volumeMounts"),
        *("readinessProbe", "livenessProbe", "startupProbe"),
    },
    "probe": {"httpGet", "periodSeconds", "timeoutSeconds", "failureThreshold"},
    "volume": {"name", "configMap", "secret"},
    "mount": {"name", "mountPath", "readOnly"},
}


def manifests(first_line: str) -> list[dict[str, Any]]:
    (text,) = [each.text for each in BLOCKS if each.language == "yaml" and each.text.startswith(first_line)]
    return list(yaml.safe_load_all(text))


@pytest.fixture
def compose() -> dict[str, Any]:
    (found,) = manifests("# compose.yaml")
    return found


@pytest.fixture
def objects() -> dict[str, dict[str, Any]]:
    return {each["kind"]: each for each in manifests("# mcptrio.yaml")}


def settings_of(text: str, folder: Path) -> Any:
    (folder / "mcptrio.toml").write_text(text)
    return load_config(folder / "mcptrio.toml")


def test_compose_file_has_known_fields_and_valid_references(compose: dict[str, Any]) -> None:
    services = compose["services"]

    assert {each for each in compose if not each.startswith("x-")} == COMPOSE_FIELDS[""]
    for service in services.values():
        assert set(service) <= COMPOSE_FIELDS["service"]
        assert set(service.get("healthcheck", {})) <= COMPOSE_FIELDS["healthcheck"]
        assert set(service.get("secrets", ())) <= set(compose["secrets"])
        for name, condition in service.get("depends_on", {}).items():
            assert condition == {"condition": "service_healthy"}
            assert "healthcheck" in services[name]


def test_compose_passes_known_settings_to_the_replicas(compose: dict[str, Any]) -> None:
    replica = compose["services"]["replica1"]
    variables = replica["environment"]

    assert set(variables) <= {variable_of(key) for key in keys()}
    config = load_config(None, environ=variables)

    assert config.stores.password_file == Path("/run/secrets/redis_password")
    assert config.server.timeouts.shutdown + STORE_SECONDS <= int(replica["stop_grace_period"].removesuffix("s"))
    assert compose["services"]["replica2"] == replica


async def test_redis_of_compose_passes_the_check(compose: dict[str, Any], tmp_path: Path) -> None:
    (secrets,) = [each.text for each in BLOCKS if each.language == "sh" and "redis.users" in each.text]
    assert acl_line("mcptrio").replace("PASSWORD", "$password") in secrets
    await trio.run_process(["sh", "-e", "-c", secrets], cwd=tmp_path)
    service = compose["services"]["redis"]
    _, *options = service["command"].replace("/run/secrets/redis_users", f"{tmp_path}/redis.users").split()
    with ExitStack() as stack:
        port = stack.enter_context(held_port())
        own = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(tmp_path), "--save", ""]
        program = Program([program_path("redis-server"), *options, *own], tmp_path, tmp_path / "redis.log")
        program.start()
        stack.callback(program.end)
        await until_listening(program, port)
        variables = {
            **compose["services"]["replica1"]["environment"],
            "MCPTRIO_STORES_PASSWORD_FILE": f"{tmp_path}/redis.password",
        }
        stores = load_config(None, environ=variables).stores

        found = await check(f"redis://mcptrio@127.0.0.1:{port}", stores)

        assert [each for each in found if not each.is_ok] == []
        _, *ping = service["healthcheck"]["test"]
        done = await trio.run_process([*ping[:1], "-p", str(port), *ping[1:]], capture_stdout=True)
        assert done.stdout.strip() == b"PONG"


def test_kubernetes_objects_have_known_fields(objects: dict[str, dict[str, Any]]) -> None:
    known = KUBERNETES_FIELDS
    for kind, each in objects.items():
        assert set(each) <= known["object"]
        assert set(each["metadata"]) <= known["metadata"]
        assert set(each.get("spec", ())) <= known.get(kind, set())
    pod = objects["Deployment"]["spec"]["template"]["spec"]
    assert set(pod) <= known["pod"]
    (container,) = pod["containers"]
    assert set(container) <= known["container"]
    for name in ("readinessProbe", "livenessProbe", "startupProbe"):
        assert set(container[name]) <= known["probe"]
        assert container[name]["httpGet"]["path"] in ("/readyz", "/healthz")
        assert container[name]["httpGet"]["port"] == container["ports"][0]["name"]
    assert all(set(each) <= known["volume"] for each in pod["volumes"])
    assert all(set(each) <= known["mount"] for each in container["volumeMounts"])


def test_kubernetes_objects_name_each_other(objects: dict[str, dict[str, Any]]) -> None:
    deployment = objects["Deployment"]["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    pod = deployment["template"]["spec"]

    assert deployment["selector"]["matchLabels"] == labels
    assert objects["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    assert objects["Service"]["spec"]["selector"] == labels
    assert {each["name"] for each in pod["volumes"]} == {each["name"] for each in pod["containers"][0]["volumeMounts"]}
    (path,) = objects["Ingress"]["spec"]["rules"][0]["http"]["paths"]
    assert path["backend"]["service"]["name"] == objects["Service"]["metadata"]["name"]
    assert pod["volumes"][0]["configMap"]["name"] == objects["ConfigMap"]["metadata"]["name"]


def test_kubernetes_waits_for_the_shutdown_and_for_the_start(
    objects: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    config = settings_of(objects["ConfigMap"]["data"]["mcptrio.toml"], tmp_path)
    pod = objects["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    startup, readiness = container["startupProbe"], container["readinessProbe"]
    stopping = config.http.shutdown_delay + config.server.timeouts.shutdown

    assert pod["terminationGracePeriodSeconds"] >= stopping + STORE_SECONDS
    assert config.http.shutdown_delay >= 2 * readiness["periodSeconds"] * readiness["failureThreshold"]
    assert startup["periodSeconds"] * startup["failureThreshold"] > config.stores.start_timeout


def test_kubernetes_mounts_the_files_of_the_secret_that_the_settings_name(
    objects: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    config = settings_of(objects["ConfigMap"]["data"]["mcptrio.toml"], tmp_path)
    (command,) = [each.text for each in BLOCKS if each.language == "sh" and "create secret" in each.text]
    mounted = {each["name"]: each["mountPath"] for each in _container(objects)["volumeMounts"]}

    files = [*config.server.key_files, config.stores.password_file, config.stores.ca_file]

    assert {os.fspath(each) for each in files} == {
        f"{mounted['secret']}/{name}" for name in re.findall(r"--from-file=(\S+)", command)
    }
    assert _container(objects)["args"] == ["--config", f"{mounted['config']}/mcptrio.toml"]


def _container(objects: dict[str, dict[str, Any]]) -> dict[str, Any]:
    container: dict[str, Any] = objects["Deployment"]["spec"]["template"]["spec"]["containers"][0]
    return container
