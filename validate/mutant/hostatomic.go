package mutant

import (
	"encoding/binary"
	"sync"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/validate"
	"ciddk/validate/mutant/tap"
)

// HostAtomics returns mutants whose remote atomics load, change and store in separate steps. They are atomic among QPs,
// because of a lock, but not with the processor.
func HostAtomics() []Mutant {
	split := func(name, does string, op ci.SendOp) Mutant {
		return Of("atomic."+name, "CI-Atomic-02", does, nil).Changing(func(t *validate.Target) {
			s := &splitAtomics{op: op, regions: map[ci.Key]storage{}}
			for i, h := range t.HCAs {
				t.HCAs[i] = s.over(h)
			}
		})
	}
	return []Mutant{
		split("host-add", "a fetch-and-add is not atomic with the processor", ci.OpFetchAdd),
		split("host-swap", "a compare-and-swap is not atomic with the processor", ci.OpCompareSwap),
	}
}

// splitAtomics executes atomics of one kind when they are posted, on the memory of the region that their key names. The
// adapters of a target share it.
type splitAtomics struct {
	op ci.SendOp

	mu      sync.Mutex
	regions map[ci.Key]storage
	numDone int // executed operations whose completions have not been polled
}

type storage struct {
	region ci.Region
	memory ci.Memory
}

func (s *splitAtomics) over(h ci.HCA) ci.HCA {
	return ciwrap.Wrap(h, ciwrap.Layer{
		MR: func(m ci.MR, o ciwrap.MROrigin) ci.MR {
			if o.Kind == ciwrap.MRVirtual {
				s.mu.Lock()
				defer s.mu.Unlock()
				r := m.Region()
				s.regions[r.LKey], s.regions[r.RKey] = storage{r, o.Virtual.Memory}, storage{r, o.Virtual.Memory}
			}
			return m
		},
		QP: func(q ci.QP, _ ci.QPCreate) ci.QP { return splitter{ciwrap.QP{QP: q}, s} },
		CQ: func(c ci.CQ, _ ci.CQCreate) ci.CQ { return splitCQ{ciwrap.CQ{CQ: c}, s} },
	})
}

// bytes returns the word at an address of the region with the key, or nil.
func (s *splitAtomics) bytes(key ci.Key, addr uint64) []byte {
	r, ok := s.regions[key]
	if !ok || addr%8 != 0 || addr < r.region.Addr || addr-r.region.Addr+8 > r.region.Length {
		return nil
	}
	return r.memory.Slice(addr-r.region.Addr, 8)
}

type splitter struct {
	ciwrap.QP
	s *splitAtomics
}

func (s splitter) PostSend(wrs []ci.SendWR) (int, error) {
	list := tap.CopySends(wrs)
	for i := range list {
		if w := &list[i]; w.Op == s.s.op && len(w.SGL) == 1 {
			s.s.execute(w)
		}
	}
	return s.QP.PostSend(list)
}

// execute executes an atomic and replaces the request by one that does nothing.
func (s *splitAtomics) execute(w *ci.SendWR) {
	s.mu.Lock()
	defer s.mu.Unlock()
	word, result := s.bytes(w.Remote.RKey, w.Remote.Addr), s.bytes(w.SGL[0].LKey, w.SGL[0].Addr)
	if word == nil || result == nil {
		return
	}
	old := binary.NativeEndian.Uint64(word)
	switch {
	case w.Op == ci.OpFetchAdd:
		binary.NativeEndian.PutUint64(word, old+w.Atomic.Compare)
	case old == w.Atomic.Compare:
		binary.NativeEndian.PutUint64(word, w.Atomic.Swap)
	}
	binary.NativeEndian.PutUint64(result, old)
	w.Op, w.SGL = ci.OpNop, nil
	s.numDone++
}

type splitCQ struct {
	ciwrap.CQ
	s *splitAtomics
}

func (s splitCQ) Poll(wc []ci.WC) (int, error) {
	n, err := s.CQ.Poll(wc)
	s.s.mu.Lock()
	ops := map[ci.SendOp]ci.WCOp{ci.OpFetchAdd: ci.WCFetchAdd, ci.OpCompareSwap: ci.WCCompareSwap}
	defer s.s.mu.Unlock()
	for i := range wc[:n] {
		if wc[i].Op == ci.WCNop && s.s.numDone > 0 {
			s.s.numDone--
			wc[i].Length, wc[i].Op = 8, ops[s.s.op]
		}
	}
	return n, err
}
