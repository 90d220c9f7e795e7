package rocev2

import (
	"maps"
	"net/netip"
	"sync"
	"sync/atomic"

	"ciddk/internal/train"
	"ciddk/rvt"
	"ciddk/wire"
)

// Ports of one process whose addresses reach each other need no socket: packets go from one engine to the other, trains
// as they are, as Linux's software RoCE has it for its own device (rxe_loopback in rxe_net.c).

// A Place is where a port receives: its address and UDP port, in a network of the system.
type Place struct {
	Addr netip.AddrPort
	Net  uint64
}

// near holds the started ports of the process that have Near, by place. The map is replaced, never changed.
var near struct {
	mu    sync.Mutex
	ports atomic.Pointer[map[Place]*Port]
}

// place returns where the port receives.
func (p *Port) place() Place { return Place{netip.AddrPortFrom(p.Addr, p.UDP), p.Net} }

// appear makes the port known to the others of the process.
func (p *Port) appear() {
	change(func(ports map[Place]*Port) { ports[p.place()] = p })
}

// disappear undoes appear.
func (p *Port) disappear() {
	change(func(ports map[Place]*Port) {
		if ports[p.place()] == p {
			delete(ports, p.place())
		}
	})
}

func change(f func(ports map[Place]*Port)) {
	near.mu.Lock()
	defer near.mu.Unlock()
	next := map[Place]*Port{}
	if old := near.ports.Load(); old != nil {
		maps.Copy(next, *old)
	}
	f(next)
	near.ports.Store(&next)
}

// nearby is the port at the end of a route as of a state of the map.
type nearby struct {
	of *map[Place]*Port
	to *Port
}

// near returns the port of this process to which the route leads, or nil.
func (r *Route) near() *Port {
	if r.port == nil || !r.port.Near {
		return nil
	}
	ports := near.ports.Load()
	if ports == nil {
		return nil
	}
	n := r.seen.Load()
	if n == nil || n.of != ports {
		n = &nearby{ports, (*ports)[Place{r.Dst, r.port.Net}]}
		r.seen.Store(n)
	}
	return n.to
}

// sendNear delivers the packets at the front of pkts that are for ports of this process, and returns the rest. It
// returns all of them if the first one is not.
func (p *Port) sendNear(pkts []rvt.Packet) []rvt.Packet {
	for len(pkts) > 0 {
		r, ok := pkts[0].Route.(*Route)
		if !ok {
			return pkts
		}
		to := r.near()
		if to == nil {
			return pkts
		}
		n := 0
		for ; n < len(pkts) && pkts[n].Route == rvt.Route(r) && pkts[n].DestQP == pkts[0].DestQP; n++ {
			q := &pkts[n]
			q.Src.GID, q.Dst.GID, q.Entropy = p.GID, r.Key.GID, r.of(q).Src
			if q.Service == wire.UD {
				break
			}
		}
		if n == 0 {
			n = 1
			to.takeDatagram(r, pkts[:1])
		} else {
			to.take(pkts[:n])
		}
		pkts = pkts[n:]
	}
	return nil
}

// toSocket returns how many of the packets at the front of pkts go to the socket, at least one.
func (p *Port) toSocket(pkts []rvt.Packet) int {
	if !p.Near {
		return len(pkts)
	}
	n := 1
	for n < len(pkts) {
		if r, ok := pkts[n].Route.(*Route); ok && r.near() != nil {
			break
		}
		n++
	}
	return n
}

// take passes packets to the engine.
func (p *Port) take(pkts []rvt.Packet) {
	if !p.visits.Enter() {
		return // nobody receives there any more
	}
	defer p.visits.Leave()
	if !p.Active() {
		p.Receiver.Count(rvt.DropNotForUs, train.Count(pkts))
		return
	}
	p.Stats.Near.Add(uint64(len(pkts)))
	p.Receiver.Deliver(pkts, false, false)
}

// A grhRoom holds the GRH of a datagram.
type grhRoom [wire.GRHAreaLen]byte

var grhRooms = sync.Pool{New: func() any { return new(grhRoom) }}

// takeDatagram passes a datagram to the engine, with the IP header that it would have had.
func (p *Port) takeDatagram(r *Route, pkt []rvt.Packet) {
	room := grhRooms.Get().(*grhRoom)
	op := wire.UDSendOnly
	if pkt[0].HasImm {
		op = wire.UDSendOnlyImm
	}
	h := grhHeader{src: r.port.Addr, dst: p.Addr, class: r.Key.Class, hops: r.Key.HopLimit, label: r.Key.Label}
	h.put(room[:], wire.PacketLen(op, int(pkt[0].Len)))
	pkt[0].GRH = room[:]
	p.take(pkt)
	pkt[0].GRH = nil
	grhRooms.Put(room)
}
