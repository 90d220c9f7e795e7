package model

import (
	"sync/atomic"

	"ciddk/internal/mlx4/prm"
)

// ethStats are the counters of an Ethernet port: the frames that its queues send, and those that it receives for them.
type ethStats struct {
	long [prm.EthStatsLongSize / 8]atomic.Uint64
	word [len(ethWords)]atomic.Uint32
	mtu  atomic.Uint32 // longest frame in octets, with FCS; 0: the adapter's
}

// Indexes in ethWords.
const (
	statDropped = iota
	statOverflow
	statLength
	statGood
	statSendDropped
)

var ethWords = [...]*prm.Field{
	statDropped:     &prm.EthDropped,
	statOverflow:    &prm.EthDropOverflow,
	statLength:      &prm.EthDropLength,
	statGood:        &prm.EthGoodFrames,
	statSendDropped: &prm.EthSendDropped,
}

// ethCounters are the offsets of the counters of a direction.
type ethCounters struct{ sizes, broadcast, multicast, unicast, octets, frames, array int }

var (
	recvCounters = ethCounters{prm.EthRecvSizes, prm.EthRecvBroadcast, prm.EthRecvMulticast, prm.EthRecvUnicast,
		prm.EthRecvOctets, prm.EthRecvFrames, prm.EthRecvArray}
	sendCounters = ethCounters{prm.EthSendSizes, prm.EthSendBroadcast, prm.EthSendMulticast, prm.EthSendUnicast,
		prm.EthSendOctets, prm.EthSendFrames, prm.EthSendArray}
)

// Sizes in octets.
const (
	fcsSize    = 4
	minFrame   = 64 // with FCS
	framing    = 20 // preamble and gap
	tripleStep = 8
)

// count counts a frame, which has no FCS.
func (s *ethStats) count(c *ethCounters, f []byte) {
	element, isTagged := prm.EthUntagged, false
	if kind := bigEndian.Uint16(f[12:]); (kind == typeVLAN || kind == typeSVLAN) && len(f) > ethSize {
		element, isTagged = int(f[ethSize]>>5), true
	}
	octets := max(len(f)+fcsSize, minFrame)
	class := s.sizeClass(octets)
	s.add(c.sizes+class*c.array+8*element, 1)
	switch {
	case f[0]&1 == 0 && class == len(prm.EthSizeLimits)+1: // too long for the counter of single addresses
	case f[0]&1 == 0:
		s.add(c.unicast+8*element, 1)
	case [6]byte(f) == broadcast:
		s.add(c.broadcast+8*element, 1)
	default:
		s.add(c.multicast+8*element, 1)
	}
	at := c.octets + element*prm.EthTriple
	s.add(at, octets+framing)
	s.add(at+tripleStep, octets)
	s.add(at+2*tripleStep, octets)
	at = c.frames + element*prm.EthTriple
	s.add(at, 1)
	if isTagged {
		s.add(at+tripleStep, 1)
	}
}

var broadcast = [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// sizeClass returns the index of the counter by size.
func (s *ethStats) sizeClass(octets int) int {
	n := len(prm.EthSizeLimits)
	if mtu := int(s.mtu.Load()); mtu != 0 && octets > mtu {
		return n + 1
	}
	for i, limit := range prm.EthSizeLimits {
		if octets <= limit {
			return i
		}
	}
	return n
}

func (s *ethStats) add(off, n int) { s.long[off/8].Add(uint64(n)) }

// drop counts a frame that is dropped, and the reason.
func (s *ethStats) drop(reason int) {
	s.word[statDropped].Add(1)
	s.word[reason].Add(1)
}

// put stores the counters in a mailbox.
func (s *ethStats) put(b []byte) {
	for i := range s.long {
		bigEndian.PutUint64(b[8*i:], s.long[i].Load())
	}
	for i, f := range ethWords {
		f.Put(b, uint64(s.word[i].Load()))
	}
}

// subtract takes the counters in a mailbox off, so that frames that were counted since remain.
func (s *ethStats) subtract(b []byte) {
	for i := range s.long {
		s.long[i].Add(-bigEndian.Uint64(b[8*i:]))
	}
	for i, f := range ethWords {
		s.word[i].Add(-uint32(f.Get(b)))
	}
}

// clear sets all counters to 0.
func (s *ethStats) clear() {
	var b [prm.MailboxSize]byte
	s.put(b[:])
	s.subtract(b[:])
}

// ethernetStats returns the counters of an Ethernet port. There are no pause frames, so flow control has only zeros.
func (c *command) ethernetStats() prm.Status {
	mod := bigEndian.AppendUint32(nil, c.mod)
	p := c.port(uint8(prm.EthStatsPort.Get(mod)))
	if p == nil || !p.isEthernet() {
		return prm.BadParam
	}
	b := make([]byte, prm.MailboxSize)
	if prm.EthStatsFlow.Has(mod) {
		return c.outbox(b)
	}
	p.stats.put(b)
	status := c.outbox(b)
	if status == prm.OK && prm.EthStatsReset.Has(mod) {
		p.stats.subtract(b)
	}
	return status
}
