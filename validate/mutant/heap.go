package mutant

import (
	"sync"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate/mutant/tap"
)

// Heap returns mutants that keep memory of destroyed objects. Counts of objects do not show this.
func Heap() []Mutant {
	kept := func(name, what string, needs ci.Caps, l func(keep func()) ciwrap.Layer) Mutant {
		return Of("heap."+name, "CI-Teardown-10", "64 bytes of the heap are leaked for each "+what,
			func(h ci.HCA) ci.HCA {
				r := new(remains)
				return ciwrap.Wrap(h, l(r.add))
			}).Needing(needs)
	}
	return []Mutant{
		kept("pd", "PD", 0, func(keep func()) ciwrap.Layer {
			return ciwrap.Layer{PD: func(p ci.PD, _ ci.PDType) ci.PD { keep(); return p }}
		}),
		kept("cq", "CQ", 0, func(keep func()) ciwrap.Layer {
			return ciwrap.Layer{CQ: func(c ci.CQ, _ ci.CQCreate) ci.CQ { keep(); return c }}
		}),
		kept("qp", "QP", 0, func(keep func()) ciwrap.Layer {
			return ciwrap.Layer{QP: func(q ci.QP, _ ci.QPCreate) ci.QP { keep(); return q }}
		}),
		kept("connection", "connected QP", 0, func(keep func()) ciwrap.Layer {
			return ciwrap.Layer{QP: func(q ci.QP, c ci.QPCreate) ci.QP {
				return tap.ModifyOf(q, c, func(_ ci.QPCreate, set ci.QPField, _ *ci.QPAttr) {
					if set&ci.QPFieldDestNum != 0 {
						keep()
					}
				})
			}}
		}),
		kept("message", "posted request", 0, func(keep func()) ciwrap.Layer {
			return ciwrap.Layer{QP: func(q ci.QP, c ci.QPCreate) ci.QP {
				return tap.SendsOf(q, c, func(_ ci.QPCreate, wrs []ci.SendWR) []ci.SendWR { keep(); return wrs })
			}}
		}),
		kept("mr", "region", 0, func(keep func()) ciwrap.Layer {
			return ciwrap.Layer{MR: func(m ci.MR, o ciwrap.MROrigin) ci.MR {
				if o.Kind == ciwrap.MRVirtual {
					keep()
				}
				return m
			}}
		}),
		kept("fast-reg", "region for fast registration", ci.CapFastReg, func(keep func()) ciwrap.Layer {
			return ciwrap.Layer{MR: func(m ci.MR, o ciwrap.MROrigin) ci.MR {
				if o.Kind == ciwrap.MRFastReg {
					keep()
				}
				return m
			}}
		}),
		kept("av", "address vector", ci.CapAV, func(keep func()) ciwrap.Layer {
			return ciwrap.Layer{AV: func(a ci.AV, _ ci.AVAttr) ci.AV { keep(); return a }}
		}),
		kept("srq", "shared receive queue", ci.CapSRQ, func(keep func()) ciwrap.Layer {
			return ciwrap.Layer{SRQ: func(s ci.SRQ, _ ci.SRQCreate) ci.SRQ { keep(); return s }}
		}),
		kept("mw", "window", ci.CapMW1, func(keep func()) ciwrap.Layer {
			return ciwrap.Layer{MW: func(m ci.MW, _ ci.MWCreate) ci.MW { keep(); return m }}
		}),
		kept("fmr", "FMR", ci.CapFMR, func(keep func()) ciwrap.Layer {
			return ciwrap.Layer{FMR: func(f ci.FMR, _ ci.FMRCreate) ci.FMR { keep(); return f }}
		}),
		kept("dma", "mapping for DMA", ci.CapPhysicalMR, func(keep func()) ciwrap.Layer {
			return ciwrap.Layer{DMA: func(d ci.DMA, _ ci.Memory) ci.DMA { keep(); return d }}
		}),
		kept("mcast", "membership in a group", ci.CapMulticast, func(keep func()) ciwrap.Layer {
			return ciwrap.Layer{Mcast: func(m ci.Mcast, _ ci.McastAttach) ci.Mcast { keep(); return m }}
		}),
		kept("handler", "event handler", ci.CapEventHandlers, func(keep func()) ciwrap.Layer {
			return ciwrap.Layer{EventHandler: func(o ci.Object) ci.Object { keep(); return o }}
		}),
	}
}

// remains is memory that is never used again.
type remains struct {
	mu   sync.Mutex
	kept [][]byte
}

func (r *remains) add() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept = append(r.kept, make([]byte, 64))
}
