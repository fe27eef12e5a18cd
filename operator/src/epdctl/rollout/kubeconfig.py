"""The cluster, the credentials and the namespace that kubectl would use."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import yaml
from kubernetes.aio import client as kubernetes_client
from kubernetes.aio import config as kubernetes_config
from kubernetes.aio.config.config_exception import ConfigException
from kubernetes.aio.config.kube_config import KubeConfigMerger

from epd_operator.api.untyped import items, mapping
from epd_operator.cluster.client import own_namespace
from epdctl.rollout.options import Place

DEFAULT_PATH = "~/.kube/config"
DEFAULT_NAMESPACE = "default"
_POD = "the pod of this process"


@dataclass(frozen=True, kw_only=True)
class Access:
    """How to reach a cluster.

    Attributes:
        configuration: address and credentials.
        origin: where they come from, for messages.
        namespace: namespace of the object.
    """

    configuration: kubernetes_client.Configuration
    origin: str
    namespace: str


async def find_access(place: Place) -> Access:
    """Read the kubeconfig. In a pod without one, use the credentials of the pod, as kubectl does.

    Raises:
        ValueError: there is no usable kubeconfig, or it has no such context.
    """
    configuration = kubernetes_client.Configuration()
    paths = place.kubeconfig or os.environ.get("KUBECONFIG") or DEFAULT_PATH
    if not _exists(paths):
        if place.kubeconfig or place.context or "KUBERNETES_SERVICE_HOST" not in os.environ:
            raise ValueError(f"there is no kubeconfig at {paths}: set KUBECONFIG or --kubeconfig")
        return _access_of_pod(configuration, namespace=place.namespace)
    try:
        context, namespace = _context_of(paths, chosen=place.context)
        await kubernetes_config.load_kube_config(  # type: ignore[no-untyped-call]
            config_file=paths, context=context, client_configuration=configuration, persist_config=False
        )
    except ConfigException as error:
        raise ValueError(f"the kubeconfig {paths} is not usable: {error}") from None
    except yaml.YAMLError:
        # The library's message quotes the file, and the file contains credentials.
        raise ValueError(f"the kubeconfig {paths} is not YAML") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"the kubeconfig {paths} cannot be read: {getattr(error, 'strerror', '') or error}") from None
    except (AttributeError, LookupError, RecursionError, TypeError):
        raise ValueError(f"the kubeconfig {paths} does not have the structure of a kubeconfig") from None
    return Access(
        configuration=configuration,
        origin=f"context {context}",
        namespace=place.namespace or namespace or DEFAULT_NAMESPACE,
    )


def _access_of_pod(configuration: kubernetes_client.Configuration, *, namespace: str) -> Access:
    try:
        kubernetes_config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    except ConfigException as error:
        raise ValueError(f"there is no kubeconfig, and {_POD} has no credentials: {error}") from None
    return Access(configuration=configuration, origin=_POD, namespace=namespace or own_namespace() or DEFAULT_NAMESPACE)


def _exists(paths: str) -> bool:
    try:
        return any(Path(path).expanduser().exists() for path in paths.split(os.pathsep) if path)
    except (OSError, ValueError):
        # A path that is too long or has a null character.
        return False


def _context_of(paths: str, *, chosen: str) -> tuple[str, str]:
    """The context and its namespace.

    Of several files, the first that names a current context decides, as in kubectl; the library takes the last.
    https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/
    """
    files = [mapping(file) for file in KubeConfigMerger(paths).config_files.values()]  # type: ignore[no-untyped-call]
    name = chosen or next((str(found) for file in files if (found := file.get("current-context"))), "")
    # The first file that defines a context decides, also in the library.
    contexts = {str(found.get("name")): found for file in reversed(files) for found in items(file.get("contexts"))}
    known = f"its contexts: {', '.join(sorted(contexts)) or 'none'}"
    if not name:
        raise ValueError(f"the kubeconfig {paths} has no current context: choose one with --context; {known}")
    if name not in contexts:
        raise ValueError(f"the kubeconfig {paths} has no context {name}; {known}")
    return name, str(mapping(contexts[name].get("context")).get("namespace") or "")
