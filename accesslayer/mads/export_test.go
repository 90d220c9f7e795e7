package mads

import "ciddk/mad"

// Held is the state that the services of a port hold for datagrams in progress. All fields are 0 when nothing is in
// progress.
func (m *Manager) Held(id Port) map[string]int {
	held := map[string]int{}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.ports {
		if p.id != id {
			continue
		}
		for _, e := range p.endpoints() {
			e.mu.Lock()
			for _, a := range e.table.Load().agents {
				held["requests"] += len(a.txs)
			}
			held["queued"] += e.queue.n + e.flushed.n
			held["sending"] += len(e.out) - len(e.slots)
			held["receives missing"] += len(e.posted) - e.nposted
			held["transfers out"] += len(e.transfers.out)
			held["transfers in"] += len(e.transfers.in)
			held["transfers of peers"] += len(e.transfers.begun)
			held["peers with transfers"] += len(e.transfers.shares)
			held["peers that are answered"] += len(e.transfers.answers)
			held["transfers remembered"] += len(e.transfers.done)
			held["bytes out"] += e.transfers.outBytes
			held["bytes in"] += e.transfers.inBytes
			held["local"] += len(e.local.queue)
			for _, v := range e.avs.by {
				held["vectors in use"] += v.users
			}
			if e.recovering {
				held["recovering"]++
			}
			e.mu.Unlock()
		}
	}
	for k, v := range held {
		if v == 0 {
			delete(held, k)
		}
	}
	return held
}

// Vectors returns the number of address vectors that QP1 keeps.
func (m *Manager) Vectors(id Port) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.ports {
		if p.id == id {
			p.qp[1].mu.Lock()
			defer p.qp[1].mu.Unlock()
			return len(p.qp[1].avs.by)
		}
	}
	return 0
}

// Inject delivers a datagram to QP1 as if it had come from an address.
func (m *Manager) Inject(id Port, b []byte, from Address) {
	m.mu.Lock()
	var e *endpoint
	for _, p := range m.ports {
		if p.id == id {
			e = p.qp[1]
		}
	}
	m.mu.Unlock()
	var h mad.Header
	h.Parse(b)
	e.dispatch(&h, &Received{From: from, MAD: b})
}
