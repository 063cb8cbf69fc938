"""Devices are unhealthy while the kubelet offers none of them, because their node's device plugin is away."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hami_core import Family, NodeFacts, Resources, hookimpl
from hami_core.tests.plugins.objects import loaded

ENTRY = {"id": "A-0", "count": 10, "devmem": 1024, "devcore": 100, "type": "X1", "health": True}
REGISTER = "hami.io/node-acme-register"
ACME = Family("ACME", Resources("acme.io/npu"), "hami.io/acme", register_key=REGISTER)


def registered(allocatable, offered="acme.io/npu", **entry):
    class Acme:
        @hookimpl
        def families(self):
            return [replace(ACME, offered_resource=offered)]

    node = NodeFacts("n1", {REGISTER: json.dumps([ENTRY | entry])}, allocatable=allocatable)
    return loaded(Acme).register(node)


@pytest.mark.parametrize("allocatable", [{}, {"acme.io/npu": "0"}, {"acme.io/other": "10"}])
def test_device_is_unhealthy_while_the_kubelet_offers_none(allocatable):
    [device] = registered(allocatable).devices["ACME"]
    assert (device.healthy, device.not_offered) == (False, "the kubelet offers no acme.io/npu")


@pytest.mark.parametrize(("allocatable", "offered"), [({"acme.io/npu": "1"}, "acme.io/npu"), ({}, "")])
def test_device_is_healthy_if_it_is_offered_or_not_watched(allocatable, offered):
    [device] = registered(allocatable, offered).devices["ACME"]
    assert (device.healthy, device.not_offered) == (True, "")


def test_amount_that_cannot_be_read_closes_the_family():
    found = registered({"acme.io/npu": "many"})
    assert found.devices["ACME"] is None
    assert "acme.io/npu" in str(found.errors[0])
