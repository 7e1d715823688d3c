"""A server in its own process, and its memory and descriptors.

Each file of this directory starts one. The clients are in another process, so the figures are the server's alone.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.processes import Served, serving

__all__ = ["HostileServer", "hostile_server"]

ROOT = Path(__file__).resolve().parent.parent.parent


@frozen(eq=False)
class HostileServer:
    process: Served
    ports: Mapping[str, int]
    certificate: Path
    descriptors: frozenset[str]
    """Its descriptors when it started to listen."""

    @property
    def lives(self) -> bool:
        return self.process.process.poll() is None

    def new_descriptors(self) -> list[str]:
        """Return the descriptors that it has opened since then."""
        return sorted(_descriptors(self.process.process.pid) - self.descriptors)

    def reset_peak(self) -> int:
        """Reset the peak of the memory. Return the current use in bytes."""
        Path(f"/proc/{self.process.process.pid}/clear_refs").write_text("5")
        return self._status("VmRSS")

    def peak(self) -> int:
        """The peak of the memory since the last reset, in bytes."""
        return self._status("VmHWM")

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        """Send SIGTERM. The server must end, with no request left and no unexpected complaint."""
        self.process.signal(signal.SIGTERM)
        code, _ = self.process.end()
        output = self.process.stderr
        assert code == 0, f"ended with {code}: {output[-4000:]}"
        assert re.search(r"(?m)^stopped 0$", output), output[-4000:]
        for never in ("ResourceWarning", "never awaited", "Exception ignored", "Fatal Python error"):
            assert never not in output, output[-4000:]

    def _status(self, name: str) -> int:
        match = re.search(rf"{name}:\s+(\d+) kB", Path(f"/proc/{self.process.process.pid}/status").read_text())
        assert match, name
        return int(match[1]) * 1024


@contextmanager
def hostile_server(folder: Path) -> Iterator[HostileServer]:
    """Start the server; stop it properly unless the test has failed."""
    certificate = _certificate(folder)
    command = [sys.executable, "-W", "always::ResourceWarning", "-m", "tests.hostile.child"]
    with serving(
        cwd=ROOT, logs=folder, command=[*command, str(certificate)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    ) as process:
        ports = json.loads(process.until(r"(?m)^listening (\{.*\})$")[1])
        server = HostileServer(process, ports, certificate, _descriptors(process.process.pid))
        yield server
        assert server.lives, process.stderr[-4000:]
        deadline = time.monotonic() + 60
        while (left := server.new_descriptors()) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not left, f"still open: {left}"
        server.stop()


def _descriptors(pid: int) -> frozenset[str]:
    results = set()
    with os.scandir(f"/proc/{pid}/fd") as entries:
        for entry in entries:
            try:
                results.add(f"{entry.name} {os.readlink(entry.path)}")
            except FileNotFoundError:
                pass
    return frozenset(results)


def _certificate(folder: Path) -> Path:
    """Create a key and a self-signed certificate for this machine."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mcptrio hostile tests")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / "certificate.pem"
    path.write_bytes(
        certificate.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return path
