package model

import (
	"ciddk/hca/mlx4/prm"
)

// steering selects the QPs of received frames. It is replaced, never changed.
type steering struct {
	byMAC       map[steerKey][]uint32
	promiscuous [maxPorts + 1][2][]uint32 // by port, and for groups or single addresses
}

type steerKey struct {
	port uint8
	mac  [6]byte
}

// Types of promiscuous entries (linux mlx4.h, mlx4_steer_type).
const (
	steerGroups = 0
	steerSingle = 1
)

// newSteering returns the steering of the present entries. m.mu is held.
func (m *Model) newSteering() *steering {
	s := &steering{byMAC: map[steerKey][]uint32{}, promiscuous: m.promiscuous}
	for _, e := range m.mcgs {
		if e.protocol != prm.ProtocolEth {
			continue
		}
		const portAt, macAt = 5, 10
		k := steerKey{e.gid[portAt], [6]byte(e.gid[macAt:])}
		for n := range e.members {
			s.byMAC[k] = append(s.byMAC[k], n)
		}
	}
	return s
}

// setPromiscuous sets the QPs that take all frames to groups, or to single addresses.
func (m *Model) setPromiscuous(num, kind uint8, b []byte) prm.Status {
	list, ok := memberQPNs(b)
	if !ok || m.port(num) == nil {
		return prm.BadParam
	}
	m.promiscuous[num][kind] = list
	m.steering.Store(m.newSteering())
	return prm.OK
}

// receive takes a frame that is no RoCE packet.
func (p *port) receive(f []byte) {
	s := p.m.steering.Load()
	if s == nil || !p.isOpen() || len(f) < ethSize {
		return
	}
	kind := steerSingle
	if f[0]&1 != 0 {
		kind = steerGroups
	}
	taken := map[uint32]bool{}
	for _, list := range [][]uint32{s.byMAC[steerKey{p.num, [6]byte(f)}], s.promiscuous[p.num][kind]} {
		for _, n := range list {
			if taken[n] {
				continue
			}
			taken[n] = true
			if q := p.m.frameQP(n); q != nil {
				q.receive(f)
			}
		}
	}
}

// receive stores a frame in the next receive buffer. Without one the frame is dropped.
func (q *frameQP) receive(f []byte) {
	if q.rssLog != noRSS {
		if c := q.m.frameQP(q.rssBase + flowHash(f)&(1<<q.rssLog-1)); c != nil && c.rssLog == noRSS {
			c.receive(f)
		}
		return
	}
	q.stateMu.RLock()
	defer q.stateMu.RUnlock()
	if q.state != prm.QPRTR && q.state != prm.QPRTS {
		return
	}
	q.recvMu.Lock()
	defer q.recvMu.Unlock()
	w := &q.work
	if !q.recv.Next(w) {
		return
	}
	var e [prm.CQESize]byte
	prm.CQEQPN.Put(e[:], uint64(q.num))
	prm.CQEWQEIndex.Put(e[:], w.ID)
	prm.CQESourceMAC.Put(e[:], bigEndian.Uint64(append([]byte{0, 0}, f[6:12]...)))
	prm.CQEByteCount.Put(e[:], uint64(len(f)))
	prm.CQEOpcode.Put(e[:], prm.CQERecvSend)
	if syndrome := q.scatter(f); syndrome != 0 {
		e = [prm.CQESize]byte{}
		prm.CQEQPN.Put(e[:], uint64(q.num))
		prm.CQEWQEIndex.Put(e[:], w.ID)
		prm.CQEOpcode.Put(e[:], prm.CQEOpcodeError)
		prm.CQESyndrome.Put(e[:], uint64(syndrome))
	}
	q.recvCQ.putRaw(&e)
}

// scatter stores a frame in the buffers of the receive in progress. It returns the syndrome of an error, or 0.
func (q *frameQP) scatter(f []byte) prm.Syndrome {
	if q.work.Bad {
		return prm.SynLocalQPOp
	}
	for _, s := range q.work.SGL {
		n := min(len(f), int(s.Length))
		if n > 0 && !q.copy(s, f[:n], true) {
			return prm.SynLocalProtection
		}
		f = f[n:]
	}
	if len(f) > 0 {
		return prm.SynLocalLength
	}
	return 0
}

// flowHash returns a number that is the same for all frames of a flow: a hash of the addresses and ports of IP. The
// real adapter's function depends on the key that the driver sets; the distribution is all that can be seen of it.
func flowHash(f []byte) uint32 {
	kind, at := etherType(f)
	b := f[at:]
	switch {
	case kind == typeIPv4 && len(b) >= ip4Size+4:
		b = b[12 : ip4Size+4]
	case kind == typeIPv6 && len(b) >= grhSize+4:
		b = b[8 : grhSize+4]
	default:
		return 0
	}
	h := uint32(2166136261) // FNV-1a
	for _, v := range b {
		h = (h ^ uint32(v)) * 16777619
	}
	return h ^ h>>16
}
