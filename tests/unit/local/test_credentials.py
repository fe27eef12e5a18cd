"""Kubeconfigs and certificates."""

from __future__ import annotations

import base64
import json
import shutil
import ssl
import subprocess

import pytest

from epd_local.cluster import kubeconfig, pki
from epd_local.cluster.control_plane import api_server
from epd_local.cluster.nodes import place

NODE = place(["gb200-0"])[0]
needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")


def test_a_kubeconfig_holds_its_certificates_and_refers_to_no_file():
    text = kubeconfig.render(server="https://127.0.0.1:1", authority=b"A", certificate=b"C", key=b"K")
    content = json.loads(text)
    user, cluster = content["users"][0]["user"], content["clusters"][0]["cluster"]
    assert cluster["server"] == "https://127.0.0.1:1"
    assert base64.b64decode(cluster["certificate-authority-data"]) == b"A"
    assert base64.b64decode(user["client-certificate-data"]) == b"C"
    assert base64.b64decode(user["client-key-data"]) == b"K"
    assert content["current-context"] == content["contexts"][0]["name"]


@needs_openssl
def test_a_kubeconfig_file_is_accessible_only_to_its_owner(tmp_path):
    pki.ensure_authority(tmp_path)
    pki.ensure_certificates([pki.CertificateIdentity("admin", "someone")], folder=tmp_path)
    kubeconfig.write(tmp_path / "sub" / "config", server="https://x", pki=tmp_path, identity="admin")
    assert (tmp_path / "sub" / "config").stat().st_mode & 0o777 == 0o600


def test_no_two_identities_share_a_file_and_only_the_administrator_is_in_system_masters():
    identities = (*pki.control_plane_identities(), *pki.node_identities(NODE))
    assert len({identity.file for identity in identities}) == len(identities)
    assert [identity.file for identity in identities if "system:masters" in identity.groups] == ["admin"]


def test_a_kubelet_has_the_identity_that_the_node_authorizer_expects():
    client = pki.node_identities(NODE)[0]
    assert (client.user, client.groups, client.names) == ("system:node:gb200-0", ("system:nodes",), ())


@needs_openssl
def test_certificates_are_signed_by_the_authority_and_name_user_groups_and_addresses(tmp_path):
    pki.ensure_authority(tmp_path)
    pki.ensure_certificates(pki.node_identities(NODE), folder=tmp_path)
    serving = tmp_path / f"kubelet-{NODE.name}-serving.crt"
    command = ["openssl", "verify", "-CAfile", tmp_path / "ca.crt", "-purpose", "sslserver", serving]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    command = ["openssl", "x509", "-in", serving, "-noout", "-subject", "-ext", "subjectAltName"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"IP Address:{NODE.address}" in text
    assert "system:node:gb200-0" in text
    ssl.create_default_context(cafile=str(tmp_path / "ca.crt")).load_cert_chain(serving, serving.with_suffix(".key"))


@needs_openssl
def test_existing_certificates_are_not_changed(tmp_path):
    pki.ensure_authority(tmp_path)
    identities = [pki.CertificateIdentity("a", "someone")]
    pki.ensure_certificates(identities, folder=tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    pki.ensure_authority(tmp_path)
    pki.ensure_certificates(identities, folder=tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_the_api_server_refuses_anonymous_requests(config):
    assert "--anonymous-auth=false" in api_server(config)
    assert "--authorization-mode=Node,RBAC" in api_server(config)
