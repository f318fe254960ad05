"""The files that deployment starts from are well-formed, and say what the code and the tests do."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from traitlets.config.loader import PyFileConfigLoader

from jupyter_collaboration_mcp.app import JupyterCollaborationMCP
from jupyter_collaboration_mcp.settings.settings import Settings, settings_of
from jupyter_collaboration_mcp.standalone.options import read_settings, service_parser
from tests.harness.hub import CUSTOM_SCOPES, LEVEL_SCOPE
from tests.harness.jupyter import REPOSITORY

DEPLOY = REPOSITORY / "docs" / "deploy"
PAGE = (REPOSITORY / "docs" / "deployment.md").read_text()

#: Dockerfile instructions, each with whether it is followed by at least two words.
INSTRUCTIONS = {"FROM": 1, "USER": 1, "COPY": 2, "RUN": 2, "ENV": 1, "CMD": 1, "WORKDIR": 1}


def instructions(text: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile with what follows each."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in joined.splitlines()]


def _built_from() -> list[str]:
    """What the build of the panel reads."""
    (names,) = re.findall(r"^SOURCES = (.*)$", (REPOSITORY / "hatch_build.py").read_text(), re.M)
    return list(json.loads(names))


def test_the_page_links_to_each_file() -> None:
    for file in DEPLOY.iterdir():
        if file.name != "jupyter_server_config.json":  # the Dockerfile copies it
            assert f"(deploy/{file.name})" in PAGE, file.name


def test_the_container_file_copies_what_is_there() -> None:
    found = instructions((DEPLOY / "Dockerfile").read_text())
    assert found[0][0] == "FROM"
    for name, rest in found:
        assert len(shlex.split(rest)) >= INSTRUCTIONS[name], (name, rest)
        if name == "COPY":
            *sources, _target = [word for word in shlex.split(rest) if not word.startswith("--")]
            assert all((REPOSITORY / source).exists() for source in sources), rest
        if name == "CMD":
            assert json.loads(rest) == ["jupyterhub-singleuser"]
    copied = {word for name, rest in found if name == "COPY" for word in shlex.split(rest)[:-1]}
    # The build needs what its hook reads, and the hook itself.
    assert {"hatch_build.py", "install.json", *_built_from()} <= copied
    assert [rest for name, rest in found if name == "USER"][-1] == "${NB_UID}"  # not root


def test_the_servers_configuration_is_one_that_the_extension_takes() -> None:
    (section, values), *none = json.loads(
        (DEPLOY / "jupyter_server_config.json").read_text()
    ).items()
    assert (section, none) == ("JupyterCollaborationMCP", [])
    JupyterCollaborationMCP(**values).configured()


def test_the_hubs_configuration_loads_and_defines_our_scopes() -> None:
    config = PyFileConfigLoader("jupyterhub_config.py", str(DEPLOY)).load_config()
    hub = config["JupyterHub"]
    defined = hub["custom_scopes"]
    assert {name: scope.get("subscopes") for name, scope in defined.items()} == {
        name: scope["subscopes"] for name, scope in CUSTOM_SCOPES.items()
    }
    (service,) = hub["services"]
    _, subcommand, *options = service["command"]
    assert subcommand == "hub-service"
    settings = read_settings(service_parser().parse_args(options), {}, "service")
    assert settings.hub_proxy == "http://127.0.0.1:8000/"
    for role in hub["load_roles"]:
        ours = [scope for scope in role["scopes"] if scope.startswith("custom:")]
        assert set(ours) <= set(defined)


def documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text()))


def test_the_helm_values_have_our_scopes_and_settings() -> None:
    (values,) = documents("values.yaml")
    scopes = values["hub"]["config"]["JupyterHub"]["custom_scopes"]
    assert set(scopes) <= set(CUSTOM_SCOPES)
    for scope in scopes.values():
        assert set(scope.get("subscopes", ())) <= set(scopes)
    for scope in values["hub"]["loadRoles"]["user"]["scopes"]:
        assert scope == "self" or scope in scopes
    assert LEVEL_SCOPE in next(iter(scopes))
    known = {setting.variable for setting in settings_of("extension")}
    assert set(values["singleuser"]["extraEnv"]) <= known
    (ingress,) = values["hub"]["networkPolicy"]["ingress"]
    (deployment, _) = documents("service.yaml")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    (source,) = ingress["from"]
    assert source["podSelector"]["matchLabels"].items() <= labels.items()


def test_the_deployment_of_the_service_fits_together() -> None:
    deployment, service = documents("service.yaml")
    assert (deployment["kind"], service["kind"]) == ("Deployment", "Service")
    pod = deployment["spec"]["template"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    (container,) = pod["spec"]["containers"]
    environment = {each["name"]: each["value"] for each in container["env"]}
    options = container["command"][2:]
    read_settings(service_parser().parse_args(options), environment, "service")
    (port,) = container["ports"]
    (exposed,) = service["spec"]["ports"]
    assert port["containerPort"] == exposed["targetPort"]
    assert environment["JUPYTERHUB_SERVICE_URL"].endswith(f":{port['containerPort']}")
    prefix = environment["JUPYTERHUB_SERVICE_PREFIX"]
    assert container["readinessProbe"]["httpGet"]["path"] == f"{prefix}health"
    (values,) = documents("values.yaml")
    url = values["hub"]["services"]["mcp"]["url"]
    assert url == f"http://{service['metadata']['name']}:{exposed['port']}"


def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    unit = (DEPLOY / "jupyter-agents.service").read_text()
    known = {setting.variable for setting in settings_of("extension")}
    set_there = re.findall(r"^Environment=(\w+)=", unit, re.MULTILINE)
    assert set_there
    assert set(set_there) <= known
    (start,) = re.findall(r"^ExecStart=(\S+)", unit, re.MULTILINE)
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed")
    # It looks for the program, too, which is nowhere here.
    file = tmp_path / "jupyter-agents.service"
    file.write_text(unit.replace(start, "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(file)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_each_setting_of_the_service_has_a_default_that_it_takes() -> None:
    assert read_settings(service_parser().parse_args([]), {}, "service") == Settings()
    assert {setting.name for setting in settings_of("service")} == {
        "hub_proxy",
        "hub_endpoint",
        "hub_token_age",
    }
