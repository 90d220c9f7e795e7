package fabric

import (
	"sync/atomic"

	"ciddk/ci"
	"ciddk/mad"
)

// LID ranges (IBTA volume 1, 4.1.3).
const (
	firstMulticastLID ci.LID = 0xc000
	permissiveLID     ci.LID = 0xffff
)

// fastInfo are the parts of a PortInfo that packets need, in one word that is read without a lock: LID 0-15, LMC 16-18,
// state 20-23, NeighborMTU 24-27, OperationalVLs 28-31, Enforce 32-35.
type fastInfo struct{ w atomic.Uint64 }

type fastWord uint64

func (i *fastInfo) load() fastWord { return fastWord(i.w.Load()) }

func (i *fastInfo) store(p *mad.PortInfo) {
	i.w.Store(uint64(p.LID) | uint64(p.LMC&7)<<16 | uint64(p.State&15)<<20 | uint64(p.NeighborMTU&15)<<24 |
		uint64(p.OperationalVLs&15)<<28 | uint64(p.Enforce&15)<<32)
}

func (w fastWord) lid() ci.LID         { return ci.LID(w) }
func (w fastWord) lmc() uint8          { return uint8(w>>16) & 7 }
func (w fastWord) state() ci.PortState { return ci.PortState(w >> 20 & 15) }
func (w fastWord) mtu() ci.MTU         { return ci.MTU(w >> 24 & 15) }
func (w fastWord) enforceIn() bool     { return w>>32&8 != 0 }
func (w fastWord) enforceOut() bool    { return w>>32&4 != 0 }

// lanes returns the number of data lanes that OperationalVLs stands for: 1, 2, 4, 8 or 15.
func (w fastWord) lanes() uint8 {
	switch c := uint8(w >> 28 & 15); c {
	case 0, 1:
		return 1
	case 2, 3, 4:
		return 1 << (c - 1)
	}
	return 15
}

// owns reports whether a LID is one of the port's.
func (p *Port) owns(lid ci.LID) bool {
	w := p.fast.load()
	return w.lid() != 0 && lid&^(1<<w.lmc()-1) == w.lid()
}
