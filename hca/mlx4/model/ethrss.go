package model

import (
	"math/bits"

	"ciddk/internal/mlx4/prm"
)

// rss is the parent of receive queues among which frames are distributed by a hash of their flow.
type rss struct {
	base, baseForUDP, other uint32 // QPNs: the first queues, and that of other frames
	log                     uint8  // log2 of the number of queues
	isToeplitz              bool
	ipv4, tcp4, udp4        bool // which packets are distributed
	ipv6, tcp6, udp6        bool
	key                     [prm.RSSKeySize]byte
}

// maxRSSLog is the largest table of queues, as a logarithm.
const maxRSSLog = 7

// newRSS returns the parent that the context of a QP describes.
func newRSS(ctx []byte) (*rss, prm.Status) {
	b := prm.QPCPrimary.Bytes(ctx, prm.RSSOffset+prm.RSSBase.Layout.Size)[prm.RSSOffset:]
	r := &rss{base: uint32(prm.RSSBase.Get(b)), baseForUDP: uint32(prm.RSSBaseForUDP.Get(b)),
		other: uint32(prm.RSSDefault.Get(b)), log: uint8(prm.RSSLogSize.Get(b)),
		ipv4: prm.RSSIPv4.Has(b), tcp4: prm.RSSTCPIPv4.Has(b), udp4: prm.RSSUDPIPv4.Has(b),
		ipv6: prm.RSSIPv6.Has(b), tcp6: prm.RSSTCPIPv6.Has(b), udp6: prm.RSSUDPIPv6.Has(b)}
	copy(r.key[:], prm.RSSKey.Bytes(b, prm.RSSKeySize))
	switch prm.RSSFunction.Get(b) {
	case prm.RSSToeplitz:
		r.isToeplitz = true
	case prm.RSSXOR:
	default:
		return nil, prm.BadParam
	}
	if r.log > maxRSSLog {
		return nil, prm.BadParam
	}
	return r, prm.OK
}

// Sizes of what is hashed.
const (
	portsSize = 4
	maxHashed = 32 + portsSize
)

// target returns the queue of a packet, and the hash.
func (r *rss) target(p *packet) (qpn, hash uint32) {
	isTCP, isUDP := p.isTCP(), p.isUDP()
	base, hasPorts := r.base, false
	switch {
	case isTCP && (p.isIPv4 && r.tcp4 || p.isIPv6 && r.tcp6):
		hasPorts = true
	case isUDP && (p.isIPv4 && r.udp4 || p.isIPv6 && r.udp6):
		base, hasPorts = r.baseForUDP, true
	case p.isIPv4 && r.ipv4, p.isIPv6 && r.ipv6:
	default:
		return r.other, 0
	}
	var b [maxHashed]byte
	n := copy(b[:], p.addrs)
	if hasPorts {
		n += copy(b[n:], p.payload[:portsSize])
	}
	if r.isToeplitz {
		hash = toeplitz(&r.key, b[:n])
	} else {
		hash = xorHash(b[:n])
	}
	return base + hash&(1<<r.log-1), hash
}

// toeplitz is the hash of Microsoft's RSS: the sum of the windows of the key at the bits of b that are set.
func toeplitz(key *[prm.RSSKeySize]byte, b []byte) (hash uint32) {
	window := bigEndian.Uint64(key[:])
	for i, v := range b {
		for ; v != 0; v &^= 1 << (7 - bits.LeadingZeros8(v)) {
			hash ^= uint32(window << bits.LeadingZeros8(v) >> 32)
		}
		window <<= 8
		if next := i + 8; next < len(key) {
			window |= uint64(key[next])
		}
	}
	return hash
}

// xorHash adds all bytes without carry. The real adapter's function is not public.
func xorHash(b []byte) (hash uint32) {
	for _, v := range b {
		hash ^= uint32(v)
	}
	return hash
}
