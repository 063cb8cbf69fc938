"""The network of a bed: one bridge in the control plane's namespace, and a pair of interfaces for each node.

The host's network namespace has no part of it, so beds are isolated from each other and from the outside. Nodes have no
default route: with one, a kubelet waits seconds for a cloud's metadata server.
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

# By default a bridge takes the lowest MAC address of its ports. It would change when nodes come and go, and machines
# would send packets to the old address for about 15 seconds.
_BRIDGE_ADDRESS = "02:00:0a:c8:00:01"
# Pods reach pods of other nodes through the control plane, so that nodes need no routes to each other.
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
    """Create the bridge and the address of the Service ``kubernetes``."""
    machine.script(_CONTROL_PLANE)


def connect(control_plane: Machine, machine: Machine, node: Placed) -> None:
    """Connect a node's namespace to the bridge and set its address."""
    port = _port(node)
    # After a reboot the old interface exists until the kernel has removed it.
    control_plane.run("ip", "link", "delete", port, check=False)
    # Inside the control plane, `ip` would look up the pid in the wrong pid namespace. So run it outside, with a path.
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
    """Silently drop all packets between a node and all other machines, as a broken switch does."""
    # Disable the bridge's port. The link stays up, so neither side notices. (`ip link … bridge_slave state` has no
    # effect.)
    control_plane.run("bridge", "link", "set", "dev", _port(node), "state", "disabled")


def join(control_plane: Machine, node: Placed) -> None:
    """Undo `cut`."""
    control_plane.run("bridge", "link", "set", "dev", _port(node), "state", "forwarding")


def _port(node: Placed) -> str:
    return f"port{node.number}"
