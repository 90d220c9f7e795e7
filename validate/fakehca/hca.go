// Package fakehca is a small HCA in memory for tests of the certifier itself. It has RC queue pairs that loop back
// within one adapter and support only SEND. Faults make it misbehave. It is not an example of a driver: see
// hca/reference.
package fakehca

import (
	"fmt"
	"maps"
	"os"
	"sync"

	"ciddk/ci"
)

// Faults are ways in which the adapter misbehaves.
type Faults struct {
	HangOn     string        // verb that does not return, such as "CA.AllocatePD"
	PanicOn    string        // verb that panics on its caller's goroutine
	CrashOn    string        // verb that makes a goroutine of the driver panic
	ExitOn     string        // verb that ends the process
	LeakOn     string        // destroy verb that does not decrement Live
	Noise      bool          // the driver prints to standard output
	WrongGUID  bool          // CA.Query returns another GUID
	AnyGUID    bool          // OpenCA accepts every GUID
	NoQuery    bool          // CA.Query fails
	AcceptZero bool          // CreateCQ accepts a size of 0
	LoseEvery  int           // every n-th send is lost
	Stray      bool          // each adapter starts a goroutine that ends when Release is closed
	Exit       func(int)     // for ExitOn
	Release    chan struct{} // closed to end a hang; nil: never
}

// HCA is the adapter.
type HCA struct {
	ci.UnimplementedHCA
	guid   ci.GUID
	link   ci.Link
	caps   ci.Caps
	faults Faults

	mu      sync.Mutex
	open    *ca
	live    map[string]int
	qps     map[ci.QPN]*qp
	mrs     map[ci.Key]*mr
	next    uint32
	numSent int
}

// New returns an adapter with one active port.
func New(guid ci.GUID, link ci.Link, f Faults) *HCA {
	if f.Stray {
		go func() { <-f.Release }()
	}
	return &HCA{
		guid: guid, link: link, faults: f, next: 16,
		live: map[string]int{}, qps: map[ci.QPN]*qp{}, mrs: map[ci.Key]*mr{},
	}
}

// Live returns the number of objects by kind.
func (h *HCA) Live() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.live)
}

// Info implements ci.HCA.
func (h *HCA) Info() ci.HCAInfo {
	return ci.HCAInfo{GUID: h.guid, DriverID: 1, VendorID: 0xfa4e, DeviceID: 1, Version: ci.InterfaceVersion}
}

// OpenCA implements ci.HCA.
func (h *HCA) OpenCA(guid ci.GUID, onEvent func(ci.Event), arg any) (ci.CA, error) {
	h.enter("HCA.OpenCA")
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case guid == 0 || onEvent == nil:
		return nil, fail("HCA.OpenCA", ci.InvalidParameter)
	case guid != h.guid && !h.faults.AnyGUID:
		return nil, fail("HCA.OpenCA", ci.NotFound)
	case h.open != nil:
		return nil, fail("HCA.OpenCA", ci.ResourceBusy)
	}
	h.open = &ca{h: h}
	return h.open, nil
}

func fail(verb string, s ci.Status) error { return &ci.Error{Verb: verb, Status: s} }

// enter executes the faults of a verb. The caller holds no lock.
func (h *HCA) enter(verb string) {
	switch verb {
	case h.faults.HangOn:
		<-h.faults.Release
	case h.faults.PanicOn:
		panic("fakehca: panic in " + verb)
	case h.faults.CrashOn:
		go func() { panic("fakehca: crash after " + verb) }()
		select {} // the runtime ends the process
	case h.faults.ExitOn:
		h.faults.Exit(3)
	}
	if h.faults.Noise {
		fmt.Fprintln(os.Stdout, "fakehca: "+verb)
	}
}

// add counts an object. The lock is held.
func (h *HCA) add(kind string) { h.live[kind]++ }

// remove uncounts an object that verb has destroyed. The lock is held.
func (h *HCA) remove(kind, verb string) {
	if h.faults.LeakOn != verb {
		h.live[kind]--
	}
}

type ca struct {
	ci.UnimplementedCA
	h           *HCA
	closed      bool
	numChildren int
}

// Limits of the adapter.
const (
	maxCQEs = 4096
	maxWRs  = 1024
	maxSGEs = 8
)

func (c *ca) Query() (*ci.CAAttr, error) {
	c.h.enter("CA.Query")
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	if c.closed {
		return nil, fail("CA.Query", ci.InvalidCAHandle)
	}
	if c.h.faults.NoQuery {
		return nil, fail("CA.Query", ci.Timeout)
	}
	guid := c.h.guid
	if c.h.faults.WrongGUID {
		guid++
	}
	p := ci.PortAttr{
		Num: 1, GUID: c.h.guid, Link: c.h.link, State: ci.PortActive, PhysState: 5, MTU: ci.MTU1024,
		MaxMTU: ci.MTU4096, MaxMsgSize: 1 << 31, PKeys: []ci.PKey{0xffff},
	}
	if c.h.link == ci.LinkInfiniBand {
		p.LID, p.SMLID = 1, 2
		g := ci.GID{0: 0xfe, 1: 0x80}
		for i := range 8 {
			g[15-i] = byte(c.h.guid >> (8 * i))
		}
		p.GIDs = []ci.GIDEntry{{GID: g}}
	} else {
		p.GIDs = []ci.GIDEntry{{GID: ci.GID{10: 0xff, 11: 0xff, 12: 127, 15: 1}, Type: ci.GIDRoCEv2}}
	}
	return &ci.CAAttr{
		GUID: guid, VendorID: 0xfa4e, DeviceID: 1, Caps: c.h.caps, MaxPDs: 100, MaxQPs: 100, MaxWRs: maxWRs,
		MaxSGEs: maxSGEs, MaxReadSGEs: 1, MaxCQs: 100, MaxCQEs: maxCQEs, MaxMRs: 100, MaxMRSize: 1 << 30,
		MaxPartitions: 1, MaxRespRes: 4, MaxRespResPerQP: 4, MaxInitDepthPerQP: 4, PageSizes: []uint64{4096},
		Vectors: 1, Ports: []ci.PortAttr{p},
	}, nil
}

func (c *ca) Modify(uint8, ci.PortField, ci.PortModify) error {
	return fail("CA.Modify", ci.Unsupported)
}

func (c *ca) Destroy() error {
	c.h.enter("CA.Destroy")
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	switch {
	case c.closed:
		return fail("CA.Destroy", ci.InvalidCAHandle)
	case c.numChildren > 0:
		return fail("CA.Destroy", ci.ResourceBusy)
	}
	c.closed, c.h.open = true, nil
	return nil
}

func (c *ca) AllocatePD(ci.PDType) (ci.PD, error) {
	c.h.enter("CA.AllocatePD")
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	if c.closed {
		return nil, fail("CA.AllocatePD", ci.InvalidCAHandle)
	}
	c.numChildren++
	c.h.add("pd")
	return &pd{ca: c}, nil
}
