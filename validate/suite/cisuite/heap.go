package cisuite

import (
	"fmt"
	"os"
	"runtime"
	"time"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
	"ciddk/validate/req"
)

// churned is a kind of object whose memory is measured. round creates an object, uses it if that is quick, and destroys
// it.
type churned struct {
	name, title string
	needs       ci.Caps
	datagrams   bool // whether the stage's pair consists of UD QPs
	round       func(s *churnStage) error
}

// churnStage holds the objects that rounds use and do not create. Rounds call verbs without package kit, which keeps a
// list of all objects until the end of the case.
type churnStage struct {
	p     *kit.Pair
	mem   ci.Memory
	av    ci.AVAttr
	group *group
}

// destroyed destroys the object of a create verb.
func destroyed[O ci.Object](o O, err error) error {
	if err != nil {
		return err
	}
	return o.Destroy()
}

// shortWait is a quarantine of QP numbers that ends before the next object is created, because a driver may keep state
// for a number in quarantine.
const shortWait = time.Nanosecond

var churnedKinds = []churned{
	{name: "pd", title: "PDs", round: func(s *churnStage) error { return destroyed(s.p.A.CA.AllocatePD(ci.PDNormal)) }},
	{
		name:  "cq",
		title: "CQs",
		round: func(s *churnStage) error { return destroyed(s.p.A.PD.CreateCQ(ci.CQCreate{Size: 16})) },
	},
	{name: "qp", title: "QPs", round: func(s *churnStage) error {
		q, err := s.p.A.PD.CreateQP(s.p.A.Create())
		if err == nil {
			q.TimeWait(shortWait)
		}
		return destroyed(q, err)
	}},
	{name: "connection", title: "connections that transfer a message", round: (*churnStage).connection},
	{
		name:  "message",
		title: "messages of a connection",
		round: func(s *churnStage) error { s.p.A.Exchange(s.p.B, 64); return nil },
	},
	{name: "mr", title: "regions", round: func(s *churnStage) error {
		return destroyed(s.p.A.PD.RegisterMR(ci.MRCreate{Memory: s.mem, Access: kit.AllAccess}))
	}},
	{
		name:  "av",
		title: "address vectors",
		needs: ci.CapAV,
		round: func(s *churnStage) error { return destroyed(s.p.A.PD.CreateAV(s.av)) },
	},
	{name: "srq", title: "shared receive queues", needs: ci.CapSRQ, round: func(s *churnStage) error {
		return destroyed(s.p.A.PD.CreateSRQ(ci.SRQCreate{SRQAttr: ci.SRQAttr{MaxWR: 16, MaxSGE: 1}}))
	}},
	{
		name:  "mw1",
		title: "windows of type 1",
		needs: ci.CapMW1,
		round: func(s *churnStage) error { return destroyed(s.p.A.PD.CreateMW(ci.MWCreate{Type: ci.MWType1})) },
	},
	{
		name:  "mw2",
		title: "windows of type 2",
		needs: ci.CapMW2,
		round: func(s *churnStage) error { return destroyed(s.p.A.PD.CreateMW(ci.MWCreate{Type: ci.MWType2})) },
	},
	{name: "fmr", title: "FMRs", needs: ci.CapFMR, round: func(s *churnStage) error {
		return destroyed(s.p.A.PD.AllocFMR(ci.FMRCreate{MaxPages: 1, MaxMaps: 1, PageShift: 12, Access: ci.LocalWrite}))
	}},
	{name: "fast-reg", title: "regions for fast registration", needs: ci.CapFastReg, round: func(s *churnStage) error {
		return destroyed(s.p.A.PD.AllocFastRegMR(1))
	}},
	{
		name:  "dma",
		title: "mappings for DMA",
		needs: ci.CapPhysicalMR,
		round: func(s *churnStage) error { return destroyed(s.p.A.CA.MapDMA(s.mem)) },
	},
	{name: "mcast", title: "multicast attachments", needs: ci.CapMulticast | ci.CapUD | ci.CapAV, datagrams: true,
		round: func(s *churnStage) error {
			return destroyed(s.p.A.AttachMcast(ci.McastAttach{GID: s.group.gid, LID: mlid1}))
		}},
	{name: "handler", title: "event handlers", needs: ci.CapEventHandlers, round: func(s *churnStage) error {
		return destroyed(s.p.A.CA.OnEvent(noEvents, nil))
	}},
}

// heapCases are the cases for memory and descriptors that objects use and must release. They do not measure other
// processes or device memory.
var heapCases = &validate.Area{}

var ciTeardown10 = heapCases.Must("CI-Teardown-10", "SAS 0", "create and destroy verbs",
	"Destroyed objects and completed messages release the memory and the descriptors that they used in the "+
		"process.")

var _ = validate.Matrix(heapCases, churnedKinds, func(k churned) (validate.Case, []*req.Requirement) {
	return validate.Case{
		ID:      "teardown.heap." + k.name,
		Title:   "memory after many " + k.title,
		Feature: validate.FeatureTeardown,
		Needs:   validate.Needs{Caps: k.needs},
		Timeout: 30 * time.Second,
		Run:     func(t *validate.T) { heapGrows(t, k) },
	}, []*req.Requirement{ciTeardown10}
})

// connection connects a QP of each adapter, sends a message and destroys both QPs.
func (s *churnStage) connection() error {
	var ends [2]*kit.End
	for i, e := range []*kit.End{s.p.A, s.p.B} {
		q, err := e.PD.CreateQP(e.Create())
		if err != nil {
			return err
		}
		n := *e
		n.QP = &kit.QP{QP: q, CA: e.QP.CA, PD: e.PD, SendCQ: e.CQ, RecvCQ: e.RecvCQ, Events: e.Events, Config: e.Config}
		ends[i] = &n
	}
	kit.Connect(ends[0].QP, ends[1].QP)
	ends[0].Exchange(ends[1], 64)
	for _, e := range ends {
		e.TimeWait(shortWait)
		if err := e.QP.QP.Destroy(); err != nil {
			return err
		}
	}
	return nil
}

// footprint is the memory and the descriptors of the process.
type footprint struct {
	heap  int64 // bytes in use
	files int   // open descriptors; 0 if the system does not list them
}

// measure returns the smallest of several footprints, since memory in pools, with finalizers or not yet collected
// varies.
func measure() footprint {
	const looks = 5
	var least footprint
	for i := range looks {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		f := footprint{heap: int64(m.HeapAlloc)}
		if list, err := os.ReadDir("/proc/self/fd"); err == nil {
			f.files = len(list)
		}
		if i == 0 || f.heap < least.heap {
			least.heap = f.heap
		}
		if i == 0 || f.files < least.files {
			least.files = f.files
		}
	}
	return least
}

// Limits for growth in a window: bytes for each object and bytes in total, and objects for each descriptor.
const (
	leakBytes = 24
	leakLeast = 8 << 10
	leakFiles = 4
)

// A leak grows in every window. Tables with random numbers and pools grow in some windows and then stop. A driver
// passes after a few windows without growth and fails if almost all windows have grown.
const (
	quietWindows = 3
	leakyWindows = 8
)

// heapGrows creates and destroys objects in windows of equal length. It ignores the first two.
func heapGrows(t *validate.T, k churned) {
	typ := ci.RC
	if k.datagrams {
		typ = ci.UD
	}
	s := &churnStage{p: kit.NewPair(t, kit.Type(typ), kit.Size(4096)), mem: ci.Bytes(make([]byte, 4096))}
	s.av = s.p.A.QP.CA.AddressOf(s.p.B.QP.CA)
	if k.datagrams {
		s.group = joinable(t, s.p, 9)
	}
	run := func(n int) {
		for range n {
			kit.OK(t, k.round(s), "create, use and destroy many "+k.title)
		}
	}
	n := perWindow(t, run)
	run(2 * n)
	before := measure()
	var grown []string
	for quiet := 0; quiet < quietWindows && len(grown) < leakyWindows; {
		run(n)
		after := measure()
		heap, files := after.heap-before.heap, after.files-before.files
		if heap >= int64(max(leakBytes*n, leakLeast)) || files >= max(n/leakFiles, 2) {
			grown = append(grown, fmt.Sprintf("%d bytes, %d descriptors", heap, files))
		} else {
			quiet++
		}
		before = after
	}
	t.Logf("windows of %d rounds in which the process grew: %q", n, grown)
	if len(grown) == leakyWindows {
		t.Failf(fmt.Sprintf("memory of the process after many %s were created and destroyed", k.title),
			"no growth with their number",
			"growth in %d of at most %d windows of %d rounds, in the last by %s", leakyWindows,
			leakyWindows+quietWindows-1, n, grown[len(grown)-1])
	}
}

// perWindow returns a number of rounds with which a slow driver, too, completes all windows in time.
func perWindow(t *validate.T, run func(int)) int {
	const first, maxRounds, minRounds = 32, 512, 24
	start := time.Now()
	run(first)
	each := max(time.Since(start)/first, time.Nanosecond)
	windows := time.Duration(2 + leakyWindows + quietWindows - 1)
	return int(min(max(t.Remaining()/3/(windows*each), minRounds), maxRounds))
}
