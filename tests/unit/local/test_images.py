"""Contents of image archives, and the archives that a cluster keeps."""

from __future__ import annotations

import io
import json
import tarfile

import pytest

from epd_local.cluster.images import keep_archives, references
from epd_local.errors import LocalClusterError
from epd_local.image.archive import Image, Layer, write
from epd_local.image.small import WORKER_ENVIRONMENT, worker_layer, worker_settings


def archive(path, *, reference="docker.io/x/y:1", content=b"one"):
    layer = Layer()
    layer.file("file", content)
    write(Image(reference=reference, layer=layer.finish(), settings={"Cmd": ["/x"]}, architecture="amd64"), path)
    return path


def entries(layer: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
        return {entry.name: entry for entry in tar}


def test_an_archive_has_the_parts_of_a_docker_save(tmp_path):
    with tarfile.open(archive(tmp_path / "a.tar")) as tar:
        (image,) = json.load(tar.extractfile("manifest.json"))
        config = json.load(tar.extractfile(image["Config"]))
        layer = tar.extractfile(image["Layers"][0]).read()
    assert image["RepoTags"] == ["docker.io/x/y:1"]
    assert (config["architecture"], config["os"], config["config"]) == ("amd64", "linux", {"Cmd": ["/x"]})
    assert list(entries(layer)) == ["file"]


def test_the_same_content_gives_the_same_bytes(tmp_path):
    assert archive(tmp_path / "a.tar").read_bytes() == archive(tmp_path / "b.tar").read_bytes()


def test_the_worker_image_has_an_empty_usr_and_links_into_it():
    found = entries(worker_layer(b"program", applets=["sh", "busybox", "ls"]))
    assert not [name for name in found if name.startswith("usr/")]
    assert {name: found[name].linkname for name in ("bin", "sbin", "lib", "lib64")} == {
        "bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64",
    }  # fmt: skip
    assert found["busybox/sh"].linkname == "busybox"
    assert found["busybox/busybox"].isfile()
    assert found["tmp"].mode == 0o1777


def test_the_mounted_python_precedes_the_python_of_the_machine_in_the_worker_image():
    folders = WORKER_ENVIRONMENT["PATH"].split(":")
    assert folders.index("/opt/epd/python/bin") < folders.index("/usr/bin") < folders.index("/busybox")
    assert "VLLM_TARGET_DEVICE=cpu" in worker_settings()["Env"]


def test_loading_an_image_again_keeps_one_archive(tmp_path):
    store = tmp_path / "store"
    for _ in range(2):
        keep_archives([archive(tmp_path / "a.tar")], store=store, immutable=tmp_path / "cache")
    assert len(list(store.glob("*.tar"))) == 1


def test_a_newer_version_of_an_image_replaces_the_older_one(tmp_path):
    store = tmp_path / "store"
    keep_archives([archive(tmp_path / "a.tar")], store=store, immutable=tmp_path / "cache")
    (newer,) = keep_archives([archive(tmp_path / "b.tar", content=b"two")], store=store, immutable=tmp_path / "cache")
    assert list(store.glob("*.tar")) == [newer]


def test_other_images_are_kept(tmp_path):
    store = tmp_path / "store"
    first = archive(tmp_path / "a.tar")
    second = archive(tmp_path / "b.tar", reference="docker.io/x/z:1")
    keep_archives([first, second], store=store, immutable=tmp_path / "cache")
    assert len(list(store.glob("*.tar"))) == 2


def test_an_archive_that_can_change_later_is_copied(tmp_path):
    source = archive(tmp_path / "a.tar")
    (kept,) = keep_archives([source], store=tmp_path / "store", immutable=tmp_path / "cache")
    source.write_bytes(b"overwritten in place")
    assert references(kept) == {"docker.io/x/y:1"}


def test_an_archive_of_the_cache_is_linked_and_not_copied(tmp_path):
    source = archive(tmp_path / "cache" / "a.tar")
    (kept,) = keep_archives([source], store=tmp_path / "store", immutable=tmp_path / "cache")
    assert kept.samefile(source)


def test_a_missing_file_or_a_file_that_is_not_an_archive_is_refused(tmp_path):
    (tmp_path / "text").write_text("text")
    with pytest.raises(LocalClusterError, match=r"image archive .* not found"):
        keep_archives([tmp_path / "nothing"], store=tmp_path / "store", immutable=tmp_path)
    with pytest.raises(LocalClusterError, match="not a `docker save` archive"):
        keep_archives([tmp_path / "text"], store=tmp_path / "store", immutable=tmp_path)
