"""Sources of the operator's image, and the package settings of the machine that its build uses."""

from __future__ import annotations

import configparser

import pytest

from epd_local.errors import LocalClusterError
from epd_local.image import debian_base
from epd_local.image.operator import CONTEXT, source_files
from epd_local.image.pip_settings import CERTIFICATES, pip_settings


def everything_exists(_: str) -> bool:
    return True


def parsed(settings) -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser()
    parser.read_string(settings.text)
    return parser


def test_the_image_is_rebuilt_when_source_lock_or_containerfile_change():
    names = {name for name, _ in source_files(CONTEXT)}
    assert {"Containerfile", "requirements.lock", "src/epd_operator/__init__.py"} <= names
    assert not [name for name in names if "__pycache__" in name]


def test_settings_from_files_and_variables_are_passed_to_the_build():
    listed = "global.timeout='60'\n:env:.retries='9'\ninstall.no-binary=':none:'\n"
    found = parsed(pip_settings(listed, environ={}, exists=everything_exists))
    assert dict(found["global"]) == {"timeout": "60", "retries": "9"}
    assert found["install"]["no-binary"] == ":none:"


def test_multi_line_values_keep_their_lines():
    found = parsed(pip_settings("global.trusted-host='a\\nb'\n", environ={}, exists=everything_exists))
    assert found["global"]["trusted-host"].split() == ["a", "b"]


def test_certificates_are_mounted_and_configured_at_the_mount_path():
    settings = pip_settings("global.cert='/etc/own.pem'\n", environ={}, exists=everything_exists)
    assert parsed(settings)["global"]["cert"] == CERTIFICATES
    assert settings.volumes == (("/etc/own.pem", CERTIFICATES),)


def test_certificates_from_an_environment_variable_are_used():
    settings = pip_settings("", environ={"SSL_CERT_FILE": "/etc/own.pem"}, exists=everything_exists)
    assert settings.volumes == (("/etc/own.pem", CERTIFICATES),)


def test_missing_certificates_are_not_configured():
    settings = pip_settings("global.cert='/gone.pem'\n", environ={}, exists=lambda _: False)
    assert settings.volumes == ()
    assert "cert" not in settings.text


def test_local_folders_of_wheels_are_mounted_at_the_same_path():
    settings = pip_settings(":env:.find-links='/srv/wheels'\n", environ={}, exists=everything_exists)
    assert settings.volumes == (("/srv/wheels", "/srv/wheels"),)


def test_paths_of_the_machine_are_not_passed_to_the_build():
    assert "cache-dir" not in pip_settings("global.cache-dir='/c'\n", environ={}, exists=everything_exists).text


def test_only_package_sources_of_the_distribution_and_its_suite_are_used():
    listed = "Debian|bookworm|deb A bookworm main\nDebian|bookworm-security|deb B bookworm-security main\n"
    others = "Debian|trixie|deb A trixie main\nVendor|bookworm|deb C bookworm main\n"
    lines = debian_base.select_sources(listed + others, suite="bookworm").splitlines()
    assert lines == ["deb A bookworm main", "deb B bookworm-security main"]


def test_without_package_lists_the_message_has_the_command_to_get_them():
    with pytest.raises(LocalClusterError, match="apt-get update"):
        debian_base.select_sources("", suite="bookworm")


def test_proxies_are_passed_to_the_base_build_and_empty_settings_are_not():
    dump = (
        'APT "";\nAcquire::http::Proxy "http://p:1";\nAcquire::https::CAInfo "/c.pem";\nAcquire::http::Dl-Limit "";\n'
    )
    assert debian_base.transport_settings(dump) == [
        'Acquire::http::Proxy "http://p:1"',
        'Acquire::https::CAInfo "/c.pem"',
    ]


def test_the_suite_is_read_from_os_release():
    assert debian_base.this_suite('ID=ubuntu\nVERSION_CODENAME="noble"\n') == "noble"
    with pytest.raises(LocalClusterError, match="buildah"):
        debian_base.this_suite("ID=alpine\n")


def test_package_sources_and_settings_of_the_machine_are_removed_from_the_base_image():
    assert "sources.list" in debian_base.CLEAN_UP
    assert "apt.conf.d/99" in debian_base.CLEAN_UP
