"""Certificates that nobody trusts before a test says so."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True, slots=True)
class Certificate:
    """A self-signed certificate, and its key."""

    file: Path
    key: Path

    @classmethod
    def made_in(cls, directory: Path, *names: str) -> Self:
        """A new one for this machine, and for some more host names."""
        made = cls(directory / "certificate.pem", directory / "key.pem")
        all_names = ["IP:127.0.0.1", "DNS:localhost", *(f"DNS:{name}" for name in names)]
        command = ["openssl", "req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=test"]
        command += ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
        command += ["-addext", f"subjectAltName={','.join(all_names)}"]
        command += ["-out", str(made.file), "-keyout", str(made.key)]
        subprocess.run(command, check=True, capture_output=True)
        return made
