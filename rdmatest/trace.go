package rdmatest

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"net/netip"
	"slices"
	"sync"
	"time"

	"ciddk/link/impair"
	"ciddk/link/sim"
	"ciddk/wire"
)

// A Packet is a RoCEv2 packet in a trace.
type Packet struct {
	// Time is the time since New.
	Time time.Duration
	// From and To are the names of hosts, or addresses of the network that no host has.
	From, To string
	// Arrived is true for a packet that arrives at To, and false for one that leaves From.
	Arrived bool
	// Verdict is what the network does to the packet.
	Verdict impair.Verdict
	// Data is the packet, from the IP header to the ICRC. It must not be changed.
	Data []byte

	from, to netip.Addr
	flipped  int
}

// String returns the packet as a line of text, such as
//
//	1.020381ms client > server: RC_SEND_ONLY QP 0x5a41 PSN 7, 128 bytes, dropped
func (p Packet) String() string {
	arrow := ">"
	if p.Arrived {
		arrow = "=>"
	}
	what := "invalid packet"
	var f wire.Frame
	if err := wire.ParseIP(p.Data, &f); err == nil {
		b := &f.Packet.BTH
		what = fmt.Sprintf("%v QP %#x PSN %d", b.Opcode, b.DestQP, b.PSN)
	}
	return fmt.Sprintf("%v %s %s %s: %s, %d bytes, %v", p.Time, p.From, arrow, p.To, what, len(p.Data), p.Verdict)
}

// packetMemory is what a Packet occupies beside its Data, with room for the growth of a slice.
const packetMemory = 256

// A trace collects packets. Packets of one instant are put in order of their addresses, because goroutines of different
// hosts run in any order; the packets from one host to another stay in the order in which they were sent.
type trace struct {
	mu      sync.Mutex
	memory  int // bytes that the packets may occupy
	used    int
	packets []Packet // of past instants
	instant []Packet // of the present one
	hash    hash.Hash
}

func (r *trace) init(memory int) { r.memory, r.hash = memory, sha256.New() }

func (r *trace) add(p Packet) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.advance(p.Time)
	r.instant = append(r.instant, p)
}

// advance takes over the packets of the last instant if it is past. The caller holds r.mu.
func (r *trace) advance(now time.Duration) {
	if len(r.instant) > 0 && r.instant[0].Time != now {
		r.settle()
	}
}

// settle takes over the packets of an instant that is past. The caller holds r.mu.
func (r *trace) settle() {
	order(r.instant)
	for i := range r.instant {
		p := &r.instant[i]
		r.used += len(p.Data) + packetMemory
		p.sum(r.hash)
	}
	r.packets = append(r.packets, r.instant...)
	clear(r.instant)
	r.instant = r.instant[:0]
	drop := 0
	for r.used > r.memory && drop < len(r.packets) {
		r.used -= len(r.packets[drop].Data) + packetMemory
		drop++
	}
	clear(r.packets[:drop])
	r.packets = r.packets[drop:]
}

// order puts the packets of an instant in order.
func order(list []Packet) {
	slices.SortStableFunc(list, func(a, b Packet) int {
		leaving := 0
		if a.Arrived != b.Arrived {
			leaving = 1
			if b.Arrived {
				leaving = -1
			}
		}
		return cmp.Or(a.from.Compare(b.from), a.to.Compare(b.to), leaving)
	})
}

// sum adds the packet to a hash.
func (p *Packet) sum(h hash.Hash) {
	var b []byte
	b = binary.BigEndian.AppendUint64(b, uint64(p.Time))
	b = append(b, byte(p.Verdict), 0)
	if p.Arrived {
		b[len(b)-1] = 1
	}
	b = binary.BigEndian.AppendUint64(b, uint64(p.flipped))
	for _, a := range []netip.Addr{p.from, p.to} {
		v := a.As16()
		b = append(b, v[:]...)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(p.Data)))
	h.Write(b)
	h.Write(p.Data)
}

// Trace returns the packets up to now: each one when it leaves its host, with the verdict of the network, and when it
// arrives. See Config.TraceMemory.
func (n *Network) Trace() []Packet {
	r := &n.trace
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Concat(r.packets, r.present(n.clock.Elapsed()))
}

// TraceHash returns a SHA-256 hash, in hexadecimal, of all packets up to now, with their times and verdicts. Runs with
// equal hashes had the same packets at the same times. The hash includes the present instant, so call it when the
// network is quiet, such as after synctest.Wait.
func (n *Network) TraceHash() string {
	r := &n.trace
	r.mu.Lock()
	defer r.mu.Unlock()
	present := r.present(n.clock.Elapsed())
	h, err := r.hash.(hash.Cloner).Clone()
	if err != nil {
		panic(err) // the hash of crypto/sha256 can be cloned
	}
	for i := range present {
		present[i].sum(h)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// present returns the packets of the present instant, in order. The caller holds r.mu.
func (r *trace) present(now time.Duration) []Packet {
	r.advance(now)
	list := slices.Clone(r.instant)
	order(list)
	return list
}

// watch is the sim.NetworkConfig.Watch of the network.
func (n *Network) watch(d *sim.Datagram) {
	n.trace.add(Packet{Time: d.Time, From: n.nameOf(d.From), To: n.nameOf(d.To), Arrived: d.Arrived, Verdict: d.Verdict,
		Data: slices.Clone(d.Data), from: d.From, to: d.To, flipped: d.Flipped})
}

// Difference returns a text about the first packet in which two traces differ, or "" if they are equal. Call it for two
// runs whose hashes differ.
func Difference(a, b []Packet) string {
	text := func(list []Packet, i int) string {
		if i >= len(list) {
			return "no packet"
		}
		return fmt.Sprintf("%v\n    %x", list[i], list[i].Data)
	}
	for i := range max(len(a), len(b)) {
		if i < len(a) && i < len(b) && a[i].isSame(&b[i]) {
			continue
		}
		return fmt.Sprintf("packet %d:\n  %s\n  %s", i, text(a, i), text(b, i))
	}
	return ""
}

func (p *Packet) isSame(q *Packet) bool {
	return p.Time == q.Time && p.from == q.from && p.to == q.to && p.Arrived == q.Arrived && p.Verdict == q.Verdict &&
		p.flipped == q.flipped && bytes.Equal(p.Data, q.Data)
}
