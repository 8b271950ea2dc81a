"""The deployment files: valid by their own schemas where a validator is installed, and true of this program.

`pip install -e '.[deploy]'` brings the validators. No container and no cluster is started here.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from venue import cli, config, passwords
from venue.engine.counters import SHARDS
from venue.telemetry import live_memory, page, pages
from venue.telemetry.giving_way import NICENESS

TOP = Path(__file__).parents[2]
DEPLOY = TOP / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = [name for name, service in SERVICES.items() if "build" in service]
DOCKERFILE = (TOP / "Dockerfile").read_text()
HADOLINT = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")


def needs(package: str) -> pytest.MarkDecorator:
    found = importlib.util.find_spec(package) is not None
    return pytest.mark.skipif(not found, reason=f"no {package}: pip install -e '.[deploy]'")


def manifests(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / "kubernetes" / name).read_text()))


# --- the image ----------------------------------------------------------------------------------------------------


@pytest.mark.skipif(HADOLINT is None, reason="no hadolint: pip install -e '.[deploy]'")
def test_hadolint_has_nothing_to_say() -> None:
    assert HADOLINT is not None
    done = subprocess.run([HADOLINT, str(TOP / "Dockerfile")], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_image_runs_as_a_numbered_user_and_stops_with_the_signal_that_the_exchange_heeds() -> None:
    last = DOCKERFILE[DOCKERFILE.rindex("\nFROM") :]
    assert re.search(r"^USER (\d+):(\d+)$", last, re.M)
    assert "\nSTOPSIGNAL SIGTERM\n" in last
    assert '\nENTRYPOINT ["venue"]\nCMD ["serve"]\n' in last


def test_build_and_run_look_for_the_kernels_in_the_same_place_and_for_the_same_cpu() -> None:
    for variable in ("VENUE_CACHE_DIR", "NUMBA_CPU_NAME"):
        build, run = re.findall(rf"{variable}=(\S+)", DOCKERFILE[DOCKERFILE.index("\nFROM") :])
        assert build == run


def test_the_image_is_made_of_what_the_ignore_file_lets_through() -> None:
    allowed = set(re.findall(r"^!(\S+)$", (TOP / ".dockerignore").read_text(), re.M))
    copied = re.findall(r"^COPY (?!--)(.+) \S+$", DOCKERFILE, re.M)
    assert {path for line in copied for path in line.split()} == allowed
    assert all((TOP / path).exists() for path in allowed)


def test_the_image_holds_every_dependency_in_a_version_that_is_allowed() -> None:
    lines = (DEPLOY / "requirements.txt").read_text().splitlines()
    pinned = {}
    for line in lines:
        if not line.startswith("#"):
            name, _, version = line.partition("==")
            pinned[name.lower().replace("_", "-")] = version
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    for needed in map(Requirement, project["dependencies"]):
        assert needed.specifier.contains(pinned[needed.name.lower()]), needed
    version = project["version"]
    assert f'image.version="{version}"' in DOCKERFILE
    assert {SERVICES[name]["image"] for name in OURS} == {f"venue:{version}"}
    (image,) = yaml.safe_load((DEPLOY / "kubernetes" / "kustomization.yaml").read_text())["images"]
    assert image["newTag"] == version


# --- compose ------------------------------------------------------------------------------------------------------


@needs("compose_spec")
def test_compose_is_valid() -> None:
    from compose_spec import PyCompose

    assert PyCompose.from_json(json.dumps(COMPOSE)).service_names() == list(SERVICES)


def test_compose_publishes_on_loopback_only_and_pins_every_image() -> None:
    for name, service in SERVICES.items():
        for port in service.get("ports", []):
            assert re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port), (name, port)
        assert re.fullmatch(r"[a-z/]+:v?\d+\.\d+\.\d+", service["image"]), name
    assert re.search(r"^ARG PYTHON=python:\d+\.\d+-slim-[a-z]+$", DOCKERFILE, re.M)


def test_every_container_is_locked_down() -> None:
    for name, service in SERVICES.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert "privileged" not in service, name
        assert service.get("network_mode") != "host", name


def test_what_compose_mounts_is_there() -> None:
    for name, service in SERVICES.items():
        for volume in service.get("volumes", []):
            source, _, mode = volume.split(":")
            assert (DEPLOY / source).exists(), (name, source)
            assert mode == "ro", (name, source)


def commands(name: str) -> list[list[str]]:
    """The calls of `venue` in a service of compose."""
    service = SERVICES[name]
    words = [str(word) for word in service["command"]]
    if "entrypoint" not in service:
        return [words]
    return [call.split()[1:] for call in re.split(r"&& (?:exec )?", words[0])]


@pytest.mark.parametrize("name", OURS)
def test_the_commands_of_compose_exist_and_take_these_options(name: str) -> None:
    for command, *options in commands(name):
        assert command in cli.COMMANDS
        help_text = subprocess.run(
            [sys.executable, "-m", "venue", command, "--help"], capture_output=True, text=True, timeout=60
        ).stdout
        for option in options:
            if option.startswith("--"):
                assert option in help_text, (command, option)


def test_the_exchange_of_compose_starts_with_a_configuration_of_its_own() -> None:
    settings = config.load(DEPLOY / "compose" / "venue.toml")
    assert {settings.orders.host, settings.feed.host, settings.http.host} == {"0.0.0.0"}
    targets = {port.rpartition(":")[2] for port in SERVICES["venue"]["ports"]}
    assert targets == {str(settings.orders.port), str(settings.http.port)}
    assert f"venue:{settings.feed.port}" in SERVICES["replay"]["command"][0]
    known = {account.username: account.password_hash for account in settings.accounts}
    for name, account in (("maker", "MAKER"), ("load", "LOADER")):
        assert passwords.verify(SERVICES[name]["environment"]["VENUE_PASSWORD"], known[account])
    assert settings.http.operator_token_hash not in known.values()


def test_the_public_password_of_the_embedded_accounts_is_nowhere_else() -> None:
    for path in DEPLOY.rglob("*.toml"):
        assert config.DEMO_PASSWORD_HASH not in path.read_text(), path


def shared_memory_bytes(instruments: int, shards: int) -> int:
    """Of a run, and of the counters of crashed ones that stay."""
    live = live_memory.places(instruments, shards)[1] + live_memory.REQUESTS_BYTES
    return live + page.size_bytes(shards) * (1 + pages.DEAD_PAGES_KEPT)


def test_shared_memory_has_room_for_this_run_and_for_the_crashed_ones_that_are_kept() -> None:
    settings = config.load(DEPLOY / "compose" / "venue.toml")
    needed = shared_memory_bytes(settings.engine.instruments, SHARDS)
    (stateful_set,) = manifests("statefulset.yaml")
    volumes = {volume["name"]: volume for volume in stateful_set["spec"]["template"]["spec"]["volumes"]}
    assert SERVICES["venue"]["shm_size"] == "256m"
    assert volumes["shared-memory"]["emptyDir"]["sizeLimit"] == "256Mi"
    assert needed < 256 << 20
    readme = " ".join((DEPLOY / "README.md").read_text().split())
    one = live_memory.places(settings.engine.instruments)[1] + page.SIZE_BYTES
    more = live_memory.places(settings.engine.instruments, 2)[1] + page.size_bytes(2) - one
    for text in (
        f"one matching thread keeps {one / 1e6:.0f} MB",
        f"takes {more / 1e6:.1f} MB more",
        f"{page.SIZE_BYTES / 1e6:.2f} MB each",
        f"{shared_memory_bytes(settings.engine.instruments, 1) / 1e6:.0f} MB together",
        "from seven matching threads on",
    ):
        assert text in readme
    assert shared_memory_bytes(settings.engine.instruments, 6) < 64 << 20
    assert shared_memory_bytes(settings.engine.instruments, 7) > 64 << 20


def test_the_venue_of_compose_is_ready_before_its_clients_start() -> None:
    assert "/readyz" in SERVICES["venue"]["healthcheck"]["test"][-1]
    for name in OURS:
        if name != "venue":
            assert SERVICES[name]["depends_on"]["venue"]["condition"] == "service_healthy"
            assert SERVICES[name]["healthcheck"] == {"disable": True}


# --- systemd ------------------------------------------------------------------------------------------------------

UNIT = (DEPLOY / "systemd" / "venue.service").read_text()


def unit_value(key: str) -> str:
    (value,) = re.findall(rf"^{key}=(.*)$", UNIT, re.M)
    return str(value)


def test_the_unit_starts_a_command_that_exists() -> None:
    program, command, option, _ = unit_value("ExecStart").split()
    scripts = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]["scripts"]
    assert Path(program).name in scripts
    assert command in cli.COMMANDS
    assert option == "--config"


def test_the_unit_lets_telemetry_be_idle_and_leave_that_again() -> None:
    assert int(unit_value("LimitNICE")) == NICENESS


def test_the_unit_lets_the_exchange_compile() -> None:
    assert not re.search(r"^MemoryDenyWriteExecute=", UNIT, re.M)
    assert unit_value("Environment").split()[0] == f"VENUE_CACHE_DIR=%C/{unit_value('CacheDirectory')}"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze: apt-get install systemd")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "venue.service"  # it wants the program to be there
    unit.write_text(UNIT.replace(unit_value("ExecStart").split()[0], "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


# --- kubernetes ---------------------------------------------------------------------------------------------------


def kubernetes_objects() -> Iterator[dict[str, Any]]:
    for name in yaml.safe_load((DEPLOY / "kubernetes" / "kustomization.yaml").read_text())["resources"]:
        yield from manifests(name)


@needs("kubernetes_validate")
def test_the_manifests_are_valid() -> None:
    import kubernetes_validate

    checked = [
        kubernetes_validate.validate(thing, kubernetes_validate.latest_version(), strict=True)
        for thing in kubernetes_objects()
        if thing["kind"] != "ServiceMonitor"  # of the Prometheus operator, and in no published schema of Kubernetes
    ]
    assert len(checked) == 3


def container() -> dict[str, Any]:
    (stateful_set,) = manifests("statefulset.yaml")
    (only,) = stateful_set["spec"]["template"]["spec"]["containers"]
    return dict(only)


def test_probes_ask_for_pages_that_the_exchange_has() -> None:
    server = "".join(path.read_text() for path in (TOP / "service" / "venue" / "telemetry").glob("*.py"))
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        asks = container()[probe]["httpGet"]
        assert f'"{asks["path"]}"' in server
        assert asks["port"] == "http"


def test_ports_are_those_of_the_defaults_and_are_named_the_same_everywhere() -> None:
    ports = {port["name"]: port["containerPort"] for port in container()["ports"]}
    defaults = config.Config()
    assert ports == {"orders": defaults.orders.port, "feed": defaults.feed.port, "http": defaults.http.port}
    exposed = re.findall(r"(\d+)/(?:tcp|udp)", DOCKERFILE)
    assert list(map(int, exposed)) == list(ports.values())
    for service in manifests("services.yaml"):
        for port in service["spec"]["ports"]:
            assert (port["port"], port["targetPort"]) == (ports[port["name"]], port["name"])
    (monitor,) = manifests("monitor.yaml")
    assert [endpoint["port"] for endpoint in monitor["spec"]["endpoints"]] == ["http"]


def test_the_pod_is_no_root_and_writes_only_to_memory() -> None:
    (stateful_set,) = manifests("statefulset.yaml")
    pod = stateful_set["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert f"USER {pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}" in DOCKERFILE
    assert container()["securityContext"]["readOnlyRootFilesystem"] is True
    writable = {mount["mountPath"] for mount in container()["volumeMounts"] if not mount.get("readOnly")}
    assert writable == {"/dev/shm", "/tmp"}
