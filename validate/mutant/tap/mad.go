package tap

import (
	"sync"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
)

// regions resolves scatter/gather entries whose regions this process can access.
type regions struct {
	mu    sync.Mutex
	byKey map[ci.Key]region
}

type region struct {
	mem  ci.Memory
	addr uint64 // address of byte 0 of mem
}

func (r *regions) add(mr ci.MR, o ciwrap.MROrigin) {
	if o.Kind != ciwrap.MRVirtual {
		return
	}
	at := mr.Region()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byKey == nil {
		r.byKey = map[ci.Key]region{}
	}
	r.byKey[at.LKey] = region{o.Virtual.Memory, at.Addr - o.Virtual.Offset}
}

// bytes copies len(b) bytes at offset skip of a list of entries to b, or from b if put is set. It reports whether all
// bytes were copied.
func (r *regions) bytes(sgl []ci.SGE, skip int, b []byte, put bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range sgl {
		if skip >= int(s.Length) {
			skip -= int(s.Length)
			continue
		}
		g, ok := r.byKey[s.LKey]
		if !ok {
			return false
		}
		n := min(int(s.Length)-skip, len(b))
		var err error
		if off := int64(s.Addr-g.addr) + int64(skip); put {
			_, err = g.mem.WriteAt(b[:n], off)
		} else {
			_, err = g.mem.ReadAt(b[:n], off)
		}
		if err != nil {
			return false
		}
		if b, skip = b[n:], 0; len(b) == 0 {
			return true
		}
	}
	return len(b) == 0
}

const madLen = 256

// MAD returns a wrapper that changes datagrams sent through QP1, in the consumer's memory. If f returns false, the
// datagram is sent to a QPN that no peer has.
func MAD(f func(b []byte) bool) func(ci.HCA) ci.HCA { return MADOf(ci.QP1, f) }

// MADOf is MAD for QP0 or QP1.
func MADOf(typ ci.QPType, f func(b []byte) bool) func(ci.HCA) ci.HCA {
	return func(h ci.HCA) ci.HCA {
		r := &regions{}
		return ciwrap.Wrap(h, ciwrap.Layer{MR: func(mr ci.MR, o ciwrap.MROrigin) ci.MR { r.add(mr, o); return mr },
			QP: func(q ci.QP, c ci.QPCreate) ci.QP {
				if c.Type != typ {
					return q
				}
				return SendsOf(q, c, func(_ ci.QPCreate, wrs []ci.SendWR) []ci.SendWR {
					for i := range wrs {
						b := make([]byte, madLen)
						if !r.bytes(wrs[i].SGL, 0, b, false) {
							continue
						}
						if !f(b) {
							wrs[i].To.QPN = 0xfffffe
						}
						r.bytes(wrs[i].SGL, 0, b, true)
					}
					return wrs
				})
			}})
	}
}

// MADIn returns a wrapper that changes datagrams received by QP1 before the consumer polls their completions.
func MADIn(f func(b []byte)) func(ci.HCA) ci.HCA { return MADInOf(ci.QP1, f) }

// MADInOf is MADIn for QP0 or QP1.
func MADInOf(typ ci.QPType, f func(b []byte)) func(ci.HCA) ci.HCA {
	return func(h ci.HCA) ci.HCA {
		r := &regions{}
		var mu sync.Mutex
		posted := map[uint64][]ci.SGE{} // by ID, which is unique among the receives of QP1's consumers
		return ciwrap.Wrap(h, ciwrap.Layer{
			MR: func(mr ci.MR, o ciwrap.MROrigin) ci.MR { r.add(mr, o); return mr },
			QP: func(q ci.QP, c ci.QPCreate) ci.QP {
				if c.Type != typ {
					return q
				}
				return RecvOf(q, func(q ci.QP, wrs []ci.RecvWR) (int, error) {
					mu.Lock()
					for _, w := range wrs {
						posted[w.ID] = append([]ci.SGE(nil), w.SGL...)
					}
					mu.Unlock()
					return q.PostRecv(wrs)
				})
			},
			CQ: func(c ci.CQ, _ ci.CQCreate) ci.CQ {
				return PollOf(c, func(w *ci.WC) {
					mu.Lock()
					sgl, ok := posted[w.ID]
					mu.Unlock()
					b := make([]byte, madLen)
					if !ok || w.Op != ci.WCRecv || w.Status != ci.WCSuccess || !r.bytes(sgl, grhLen, b, false) {
						return
					}
					f(b)
					r.bytes(sgl, grhLen, b, true)
				})
			},
		})
	}
}

// grhLen is the length of the GRH area in front of a received datagram (IBTA volume 1, 11.4.1.1).
const grhLen = 40
