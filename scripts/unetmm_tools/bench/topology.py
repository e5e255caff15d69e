# SPDX-License-Identifier: GPL-2.0-or-later
"""Networks of scripts/scale: a TOML file and a number of hosts become links and routes."""

import tomllib

MOST_HOSTS = 1022               # NODE_MOST of sim/node/node.h, and two more
SWITCH = {"delay": (0, 1000)}
LINK = {"rate": (0.01, 1000), "delay": (0, 1_000_000), "queue": (0, 1 << 20), "loss": (0, 10**6)}
# kind: its own numbers with their bounds, and has it links between switches?
KINDS = {
    "star": ({}, False),
    "leaf-spine": ({"hosts_per_leaf": (1, 256), "spines": (1, 64)}, True),
    "fat-tree": ({}, True),
}


class TopologyError(Exception):
    """One sentence for the user."""


def number(path, table, key, bounds):
    """table[key], which has to be a number within its bounds."""
    value = table.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or \
            not bounds[0] <= value <= bounds[1]:
        raise TopologyError(f"{path}: {key} has to be a number from {bounds[0]:g} to "
                            f"{bounds[1]:g}, not {value!r}")
    return value


def section(path, file, name, bounds):
    """The numbers of a table of the file."""
    table = file.get(name)
    if not isinstance(table, dict):
        raise TopologyError(f"{path}: there is no table [{name}]")
    unknown = set(table) - set(bounds)
    if unknown:
        raise TopologyError(f"{path}: [{name}] has no {sorted(unknown)[0]}; it has "
                            f"{', '.join(bounds)}")
    return {key: number(path, table, key, limits) for key, limits in bounds.items()}


class Topology:
    """A file; network(hosts) makes a network of it."""

    def __init__(self, path):
        self.path = path
        try:
            with open(path, "rb") as file:
                data = tomllib.load(file)
        except OSError as error:
            raise TopologyError(f"{path}: {error.strerror}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise TopologyError(f"{path}: {error}") from None
        self.kind = data.get("kind")
        if self.kind not in KINDS:
            raise TopologyError(f"{path}: kind has to be {', '.join(KINDS)}, not {self.kind!r}")
        own, inner = KINDS[self.kind]
        known = {"kind", "host_link", "switch", *own, *(("switch_link",) if inner else ())}
        if set(data) - known:
            raise TopologyError(f"{path}: {sorted(set(data) - known)[0]} is not known; a {self.kind} "
                                f"has {', '.join(sorted(known))}")
        self.own = {key: number(path, data, key, bounds) for key, bounds in own.items()}
        if any(value != int(value) for value in self.own.values()):
            raise TopologyError(f"{path}: {', '.join(self.own)} have to be whole numbers")
        self.host_link = section(path, data, "host_link", LINK)
        self.switch_link = section(path, data, "switch_link", LINK) if inner else None
        self.switch = section(path, data, "switch", SWITCH)

    def network(self, hosts):
        """A Network of so many hosts."""
        net = Network(hosts, self)
        {"star": star, "leaf-spine": leaf_spine, "fat-tree": fat_tree}[self.kind](net)
        net.find_routes()
        return net


class Network:
    """Hosts 0 to hosts - 1, then switches; links (end, end, values); routes of the switches."""

    def __init__(self, hosts, topology):
        self.hosts, self.topology = hosts, topology
        self.switches = 0
        self.links = []
        self.routes = []            # (switch, host, links)

    def switch(self):
        """One more switch; returns its number among all nodes."""
        self.switches += 1
        return self.hosts + self.switches - 1

    def join(self, one, other):
        """A link between two nodes."""
        values = self.topology.host_link if min(one, other) < self.hosts else \
            self.topology.switch_link
        self.links.append((one, other, values))

    def find_routes(self):
        """For each switch and host the links of all shortest ways."""
        near = [[] for _ in range(self.hosts + self.switches)]
        for at, (one, other, _) in enumerate(self.links):
            near[one].append((other, at))
            near[other].append((one, at))
        for host in range(self.hosts):
            far = self.distances(near, host)
            for switch in range(self.hosts, self.hosts + self.switches):
                ways = [at for to, at in near[switch] if far.get(to, 1 << 30) == far[switch] - 1]
                self.routes.append((switch - self.hosts, host, ways))

    def distances(self, near, host):
        """{node: links to the host}; a way leads through switches alone."""
        far, front = {host: 0}, [host]
        while front:
            nearer, front = front, []
            for node in nearer:
                if node < self.hosts and node != host:
                    continue
                for other, _ in near[node]:
                    if other not in far:
                        far[other] = far[node] + 1
                        front.append(other)
        return far

    def lines(self):
        """The lines of sim/scale/config.c."""
        out = [f"nodes {self.hosts} {self.switches}",
               f"cost switch_delay {round(self.topology.switch['delay'] * 10**6)}"]
        for one, other, values in self.links:
            out.append(f"link {one} {other} {round(8_000_000 / values['rate'])} "
                       f"{round(values['delay'] * 10**6)} {round(values['queue'] * 1024)} "
                       f"{round(values['loss'])}")
        out += [f"route {switch} {host} {' '.join(map(str, ways))}"
                for switch, host, ways in self.routes]
        return out


def star(net):
    """One switch."""
    middle = net.switch()
    for host in range(net.hosts):
        net.join(host, middle)


def leaf_spine(net):
    """As many leaves as the hosts need, and a link from each leaf to each spine."""
    each = int(net.topology.own["hosts_per_leaf"])
    leaves = [net.switch() for _ in range(-(-net.hosts // each))]
    for host in range(net.hosts):
        net.join(host, leaves[host // each])
    for _ in range(int(net.topology.own["spines"]) if len(leaves) > 1 else 0):
        spine = net.switch()
        for leaf in leaves:
            net.join(leaf, spine)


def fat_tree(net):
    """k pods of k / 2 edges and k / 2 aggregations; (k / 2)^2 cores; k is the least that does."""
    half = next(n for n in range(1, 32) if 2 * n**3 >= net.hosts)
    pods = -(-net.hosts // half**2)
    cores = [net.switch() for _ in range(half**2 if pods > 1 else 0)]
    for pod in range(pods):
        upper = [net.switch() for _ in range(half)]
        for edge in range(half):
            first = pod * half**2 + edge * half
            below = range(first, min(first + half, net.hosts))
            if not below:
                continue
            switch = net.switch()
            for host in below:
                net.join(host, switch)
            for aggregation in upper:
                net.join(switch, aggregation)
        for at, aggregation in enumerate(upper):
            for core in cores[at * half:(at + 1) * half]:
                net.join(aggregation, core)
