package rdmatest

import (
	"net/netip"

	"ciddk/accesslayer/rdmacm"
	"ciddk/ci"
	"ciddk/link/impair"
	"ciddk/link/sim"
)

// Kill turns a host off without a word to its peers. From then on the network drops all packets from and to the host.
// Its peers find out by timeouts. Calls of its own program return errors: connections end with rdmacm.ErrDeviceRemoved,
// and Accept with net.ErrClosed. Kill returns when the host is closed. It calls t.Fatalf if there is no such host, or
// if it is killed already.
func (n *Network) Kill(host string) {
	n.t.Helper()
	h := n.find("Network.Kill", host)
	n.mu.Lock()
	killed := h.killed
	h.killed = true
	n.mu.Unlock()
	if killed {
		n.t.Fatalf("rdmatest: Network.Kill: the host %q is killed already: Restart starts it again", host)
	}
	if err := h.kill(); err != nil {
		n.t.Errorf("rdmatest: Network.Kill: closing the host %q: %v", host, err)
	}
}

// Restart starts a killed host again, with the same name and address, a new adapter and a new manager. It returns the
// new Host; the test starts the program. It calls t.Fatalf if there is no such host, or if it is running.
func (n *Network) Restart(host string) *Host {
	n.t.Helper()
	h := n.find("Network.Restart", host)
	n.mu.Lock()
	killed := h.killed
	n.mu.Unlock()
	if !killed {
		n.t.Fatalf("rdmatest: Network.Restart: the host %q is running: Kill it first", host)
	}
	next := &Host{Name: h.Name, Addr: h.Addr, net: n, number: h.number, starts: h.starts + 1}
	if err := next.open(); err != nil {
		n.t.Fatalf("rdmatest: Network.Restart: opening the host %q: %v", host, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[h.number] = next
	return next
}

// Partition makes the network drop all packets between two hosts, in both directions, until Heal. Packets on the way
// still arrive. It calls t.Fatalf if there are no such hosts, or if they are one.
func (n *Network) Partition(a, b string) {
	n.t.Helper()
	n.setPartition("Network.Partition", a, b, true)
}

// Heal ends the partition between two hosts. It does nothing if there is none. It calls t.Fatalf if there are no such
// hosts.
func (n *Network) Heal(a, b string) { n.t.Helper(); n.setPartition("Network.Heal", a, b, false) }

func (n *Network) setPartition(verb, a, b string, on bool) {
	n.t.Helper()
	p := pair(n.find(verb, a).Addr, n.find(verb, b).Addr)
	if a == b {
		n.t.Fatalf("rdmatest: %s: %q is given twice: give two hosts", verb, a)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.partitioned[p] = on
}

// pair returns the key of two addresses in Network.partitioned.
func pair(a, b netip.Addr) [2]netip.Addr {
	if b.Less(a) {
		a, b = b, a
	}
	return [2]netip.Addr{a, b}
}

// BreakQP makes the queue pair of a connection fail, as an error of the adapter does. The connection ends at this end
// at once, with rdmacm.ErrQPFailed, and its peer is told. It calls t.Fatalf if the connection has no queue pair any
// more.
func (n *Network) BreakQP(c *rdmacm.Conn) {
	n.t.Helper()
	if c == nil {
		n.t.Fatalf("rdmatest: Network.BreakQP: the connection is nil")
	}
	err := c.Err()
	if qp := c.ID().QP(); err == nil && qp != nil {
		err = qp.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPError})
	}
	if err != nil {
		n.t.Fatalf("rdmatest: Network.BreakQP: the connection from %v to %v: %v", c.LocalAddr(), c.RemoteAddr(), err)
	}
}

// decide is the sim.NetworkConfig.Filter of the network.
func (n *Network) decide(d *sim.Datagram) impair.Verdict {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.partitioned[pair(d.From, d.To)] || n.isKilled(d.From) || n.isKilled(d.To) {
		return impair.Drop
	}
	return impair.Chance
}

// isKilled reports whether the host with an address is killed. The caller holds n.mu.
func (n *Network) isKilled(a netip.Addr) bool {
	for _, h := range n.hosts {
		if h.Addr == a {
			return h.killed
		}
	}
	return false
}
