package model

import (
	"slices"

	"ciddk/internal/mlx4/prm"
)

// steering selects the QPs of received frames. It is replaced, never changed.
type steering struct {
	byMAC       map[steerKey][]uint32     // in order
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

// newSteering returns the steering of the present entries. Several entries for one address count as one, which has each
// QP once and at most as many as an entry can: a frame is not delivered as often as a driver repeats itself. m.mu is
// held.
func (m *Model) newSteering() *steering {
	s := &steering{byMAC: map[steerKey][]uint32{}, promiscuous: m.promiscuous}
	for _, e := range m.mcgs {
		if e.protocol != prm.ProtocolEth {
			continue
		}
		const portAt, macAt = 5, 10
		k := steerKey{e.gid[portAt], [6]byte(e.gid[macAt:])}
		for _, n := range e.members() {
			list := s.byMAC[k]
			if i, found := slices.BinarySearch(list, n); !found && len(list) < maxMembers {
				s.byMAC[k] = slices.Insert(list, i, n)
			}
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
	slices.Sort(list)
	m.promiscuous[num][kind] = slices.Compact(list)
	m.steering.Store(m.newSteering())
	return prm.OK
}

// receive takes a frame that is no RoCE packet.
func (p *port) receive(f []byte) {
	s := p.m.steering.Load()
	if s == nil || !p.isOpen() || len(f) < ethSize || !p.filter.takes(f) {
		return
	}
	kind := steerSingle
	if f[0]&1 != 0 {
		kind = steerGroups
	}
	parsed, isCounted := parsePacket(f), false
	deliver := func(n uint32) {
		q := p.m.frameQP(n)
		if q == nil {
			return
		}
		if !isCounted {
			isCounted = true
			p.stats.count(&recvCounters, f)
		}
		q.receive(f, &parsed, 0)
	}
	single, all := s.byMAC[steerKey{p.num, [6]byte(f)}], s.promiscuous[p.num][kind]
	for _, n := range single {
		deliver(n)
	}
	for _, n := range all {
		if _, found := slices.BinarySearch(single, n); !found {
			deliver(n)
		}
	}
}

// receive stores a frame in the next receive buffer. Without one the frame is dropped.
func (q *frameQP) receive(f []byte, p *packet, hash uint32) {
	if q.rss != nil {
		qpn, hash := q.rss.target(p)
		if c := q.m.frameQP(qpn); c != nil && c.rss == nil && c.port == q.port {
			c.receive(f, p, hash)
		}
		return
	}
	q.stateMu.RLock()
	defer q.stateMu.RUnlock()
	if s := q.present(); s != prm.QPRTR && s != prm.QPRTS {
		return
	}
	q.recvMu.Lock()
	defer q.recvMu.Unlock()
	w := &q.work
	if !q.recv.Next(w) {
		q.port.stats.drop(statOverflow)
		return
	}
	var e [prm.CQESize]byte
	prm.CQEQPN.Put(e[:], uint64(q.num))
	prm.CQEWQEIndex.Put(e[:], w.ID)
	f = q.strip(f, &e)
	if syndrome := q.scatter(f); syndrome != 0 {
		q.port.stats.drop(statLength)
		e = [prm.CQESize]byte{}
		prm.CQEQPN.Put(e[:], uint64(q.num))
		prm.CQEWQEIndex.Put(e[:], w.ID)
		prm.CQEOpcode.Put(e[:], prm.CQEOpcodeError)
		prm.CQESyndrome.Put(e[:], uint64(syndrome))
		q.recvCQ.putRaw(&e)
		return
	}
	q.port.stats.word[statGood].Add(1)
	flags, checksum := p.classify()
	prm.CQEFlags.Put(e[:], flags)
	prm.CQEChecksum.Put(e[:], checksum)
	prm.CQEImmediate.Put(e[:], uint64(hash))
	prm.CQEByteCount.Put(e[:], uint64(len(f)))
	prm.CQEOpcode.Put(e[:], prm.CQERecvSend)
	q.recvCQ.putRaw(&e)
}

// strip removes the outermost VLAN tag of a frame and stores it in its completion, unless the driver wants it in the
// frame. An adapter that does not announce that it skips outer tags has S-tags in the completion, too (linux
// en_netdev.c: MLX4_DEV_CAP_FLAG2_SKIP_OUTER_VLAN).
func (q *frameQP) strip(f []byte, e *[prm.CQESize]byte) []byte {
	kind, tci, isTagged := outerTag(f)
	if q.keepsVLAN || !isTagged {
		return f
	}
	present := &prm.CQECVLAN
	if kind == typeSVLAN {
		present = &prm.CQESVLAN
	}
	present.Put(e[:], 1)
	prm.CQEVLAN.Put(e[:], uint64(tci))
	q.untagged = append(append(q.untagged[:0], f[:macsSize]...), f[macsSize+vlanSize:]...)
	return q.untagged
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
