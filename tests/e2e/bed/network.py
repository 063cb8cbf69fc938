"""The network of a bed: one bridge in the control plane's namespace, a pair of interfaces for each node.

Nothing of it is in the host's network namespace, so beds never meet, and nothing outside can reach them. Nodes have no
default route: a kubelet that finds one waits seconds for a cloud's metadata server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.e2e.bed.machine import Machine
    from tests.e2e.bed.state import Placed

CONTROL_PLANE = "10.200.0.1"
API_SERVICE = "10.96.0.1"
SERVICES = "10.96.0.0/16"
PODS = "10.244.0.0/16"

# A bridge without an address of its own takes the lowest of its ports': it would change as nodes come and go, and the
# others would send their answers to the old one for a quarter of a minute.
_BRIDGE_ADDRESS = "02:00:0a:c8:00:01"
# Pods of one node reach those of another by way of the control plane, so that no node knows the others.
_CONTROL_PLANE = f"""
hostname cp
ip link set lo up
ip address add {API_SERVICE}/32 dev lo
ip link add br0 address {_BRIDGE_ADDRESS} type bridge
ip address add {CONTROL_PLANE}/24 dev br0
ip link set br0 up
echo 1 > /proc/sys/net/ipv4/ip_forward
echo 0 > /proc/sys/net/ipv4/conf/all/send_redirects
echo 0 > /proc/sys/net/ipv4/conf/br0/send_redirects
"""


def prepare_control_plane(machine: Machine) -> None:
    """Make the bridge, and the address of the Service ``kubernetes``."""
    machine.script(_CONTROL_PLANE)


def connect(control_plane: Machine, machine: Machine, node: Placed) -> None:
    """Join a node's namespace to the bridge and give it its address."""
    port = _port(node)
    # Left over from before a reboot if the kernel has not taken it away yet.
    control_plane.run("ip", "link", "delete", port, check=False)
    # `ip` would look a pid up in the control plane's own pid namespace; from outside a path serves.
    far = ("peer", "name", "eth0", "netns", f"/proc/{machine.held.holder.pid}/ns/net")
    control_plane.run_in_network("ip", "link", "add", port, "type", "veth", *far)
    control_plane.script(f"ip link set {port} master br0 up\nip route replace {node.pods} via {node.address}\n")
    machine.script(
        f"ip link set lo up\n"
        f"ip address add {node.address}/24 dev eth0\n"
        f"ip link set eth0 up\n"
        f"ip route add {SERVICES} via {CONTROL_PLANE}\n"
        f"ip route add {PODS} via {CONTROL_PLANE}\n"
        f"echo 1 > /proc/sys/net/ipv4/ip_forward\n"
    )


def cut(control_plane: Machine, node: Placed) -> None:
    """Drop every packet between a node and everybody else, silently, as a broken switch does."""
    # The bridge's own state of the port: the link stays up, so that neither side is told. (`ip link … bridge_slave
    # state` claims to do the same and does nothing.)
    control_plane.run("bridge", "link", "set", "dev", _port(node), "state", "disabled")


def join(control_plane: Machine, node: Placed) -> None:
    """Undo `cut`."""
    control_plane.run("bridge", "link", "set", "dev", _port(node), "state", "forwarding")


def _port(node: Placed) -> str:
    return f"port{node.number}"
