package fabric

import (
	"time"

	"ciddk/ci"
	"ciddk/mad"
	"ciddk/rvt"
	"ciddk/wire"
)

// gmpBytes is the length of a management datagram with a DETH on the link, from LRH to ICRC.
const gmpBytes = smpBytes

// general moves a datagram for a QP other than QP0 to its destination.
func (f *Fabric) general(p *Port, d *Datagram) error {
	t := f.now()
	x := parcel{slid: d.SLID, dlid: d.DLID, sl: d.SL, pkey: d.PKey, srcQP: d.SrcQP, destQP: d.DestQP, packets: 1,
		largest: mad.Size, bytes: gmpBytes}
	if d.GRH != nil {
		x.bytes += wire.GRHLen
	}
	to := f.carry(p, &x, &t)
	if to == nil {
		return ErrDiscarded
	}
	return f.arrive(to, d, &x, t)
}

// arrive passes a datagram to the port that it is for.
func (f *Fabric) arrive(to *Port, d *Datagram, x *parcel, t time.Duration) error {
	if !to.admits(x) {
		return ErrDiscarded
	}
	if d.DestQP == 1 && mad.Class(d.MAD[1]) == mad.ClassPerformance && d.MAD[3]&uint8(mad.ResponseMask) == 0 {
		return f.performance(to, d)
	}
	err := f.present(to, d, t)
	if err != nil {
		to.drop(dropManager, x)
	}
	return err
}

// admits reports whether the state of an adapter's port admits a parcel. The first data packet activates an armed port.
func (p *Port) admits(x *parcel) bool {
	if x.management {
		return true // it has crossed the link
	}
	switch p.fast.load().state() {
	case ci.PortActive:
		return true
	case ci.PortArmed:
		p.activate()
		return true
	}
	p.drop(dropState, x)
	return false
}

// performance answers a request of performance management on the counters of a port's node.
func (f *Fabric) performance(to *Port, d *Datagram) error {
	if !to.node.performance(d.MAD) {
		return ErrDiscarded
	}
	d.SLID, d.DLID = d.DLID, d.SLID
	d.SrcQP, d.DestQP = d.DestQP, d.SrcQP
	if d.GRH != nil { // GIDs swap places
		g := make([]byte, wire.GRHLen)
		copy(g, d.GRH)
		copy(g[8:24], d.GRH[24:40])
		copy(g[24:40], d.GRH[8:24])
		d.GRH = g
	}
	return f.general(to, d)
}

// present offers a datagram to the managers at a port, and then to its adapter. With virtual time it arrives at t.
func (f *Fabric) present(p *Port, d *Datagram, t time.Duration) error {
	clients := p.clients.Load()
	if clients == nil && p.ca.Load() == nil {
		return ErrDiscarded
	}
	if wait := t - f.now(); f.timing && wait > 0 {
		c, m := *d, *d.MAD
		c.MAD = &m
		f.cfg.Clock.AfterFunc(wait, func() { _ = p.offer(&c) })
		return nil
	}
	return p.offer(d)
}

// offer is present at the time of arrival.
func (p *Port) offer(d *Datagram) error {
	if list := p.clients.Load(); list != nil {
		for _, c := range *list {
			if c.Take(d) {
				return nil
			}
		}
	}
	if ca := p.ca.Load(); ca != nil && ca.takes(d.DestQP) {
		ca.deliverDatagram(d)
		return nil
	}
	return ErrDiscarded
}

// packet returns a datagram as a packet of the engine. The payload is a copy.
func (d *Datagram) packet() rvt.Packet {
	b := *d.MAD
	return rvt.Packet{Service: wire.UD, Op: wire.OpSend, Start: true, End: true, PKey: d.PKey, DestQP: d.DestQP,
		SrcQP: d.SrcQP, QKey: d.QKey, N: 1, MTU: mad.Size, Len: mad.Size, Payload: [][]byte{b[:]},
		Src: rvt.Addr{LID: d.SLID}, Dst: rvt.Addr{LID: d.DLID}, SL: d.SL, GRH: d.GRH}
}
