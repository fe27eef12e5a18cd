"""ServiceAccounts of a real API server as users: their rights, and kubeconfigs for programs that use them."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, replace
from pathlib import Path

from support.apiserver import ApiServer
from support.client import Client


@dataclass(frozen=True, kw_only=True)
class Account:
    """An existing ServiceAccount."""

    server: ApiServer
    namespace: str
    name: str

    @property
    def user(self) -> str:
        """Its name as a user."""
        return f"system:serviceaccount:{self.namespace}:{self.name}"

    @property
    def client(self) -> Client:
        """A client with its rights."""
        return replace(self.server.client, token=self.token())

    def token(self) -> str:
        """A new token."""
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{self.name}/token"
        answer = self.server.client.create(path, {"spec": {}})
        assert answer.ok, answer.message
        return str(answer.body["status"]["token"])

    def kubeconfig(self, path: Path) -> Path:
        """Write a kubeconfig with its rights."""
        authority = base64.b64encode(self.server.client.ca_file.read_bytes()).decode()
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "account",
            "clusters": [
                {"name": "tests", "cluster": {"server": self.server.url, "certificate-authority-data": authority}}
            ],
            "users": [{"name": self.name, "user": {"token": self.token()}}],
            "contexts": [
                {"name": "account", "context": {"cluster": "tests", "user": self.name, "namespace": self.namespace}}
            ],
        }
        path.write_text(json.dumps(config))
        path.chmod(0o600)
        return path

    def may(self, verb: str, resource: str, *, namespace: str = "", name: str = "") -> bool:
        """Whether it has a right; *resource* is ``plural.group/subresource``, the namespace empty for all."""
        kind, _, subresource = resource.partition("/")
        plural, _, group = kind.partition(".")
        attributes = {"verb": verb, "resource": plural, "group": group, "subresource": subresource}
        attributes |= {"namespace": namespace, "name": name}
        review = {"spec": {"user": self.user, "resourceAttributes": attributes}}
        answer = self.server.client.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        assert answer.ok, answer.message
        return bool(answer.body["status"]["allowed"])
