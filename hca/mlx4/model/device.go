package model

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"ciddk/bus"
	"ciddk/ci"
	"ciddk/clock"
	"ciddk/internal/mlx4/prm"
	"ciddk/rvt"
	"ciddk/sma/pma"
)

// A Model is an adapter in software. It implements bus.Device.
type Model struct {
	cfg    Config
	config *bus.ConfigSpace
	engine *rvt.HCA
	ca     ci.CA
	ports  []*port
	host   atomic.Pointer[attachment] // nil: no driver

	hcr          hcr
	ownership    semaphore
	semaphore    semaphore
	catastrophic [prm.CatastrophicSize / 4]atomic.Uint32
	icm          icm
	translations translations
	eqs          eqTable
	perf         *pma.Agent
	flames       flames
	faults       faults
	errored      errored
	diag         diag

	// objects guards the maps, which doorbells read.
	objects  sync.RWMutex
	cqs      map[uint32]*cq
	qps      map[uint32]*qp
	frameQPs map[uint32]*frameQP
	keys     map[ci.Key]*localKey
	steering atomic.Pointer[steering]

	mu          sync.Mutex // of commands, and of what follows
	making      making
	mpts        mptTable
	fmrs        fmrs
	pds         map[uint32]*pdRef
	srqs        map[uint32]*srq
	pd          ci.PD  // of CQs
	reserved    ci.MR  // the reserved L_Key
	specialQPs  uint32 // the first one; 0: none
	mcgs        map[uint32]*mcg
	promiscuous [maxPorts + 1][2][]uint32

	nodeDescription []byte // of SET_NODE
	deviceConfig    []byte // of CONFIG_DEV
	stage           stage
	areaPages       uint64
	layout          layout
	closed          bool
}

// attachment is a host in an atomic pointer.
type attachment struct{ bus.Host }

var _ bus.Device = (*Model)(nil)

// countedGUIDs counts models without a configured GUID.
var countedGUIDs atomic.Uint64

// New makes a model and starts its ports. It takes over the links of Config.Ports, and closes them when it fails. Close
// the model when done.
func New(c Config) (*Model, error) {
	m, err := newModel(c)
	if err != nil {
		return nil, fmt.Errorf("model.New: %w", err)
	}
	return m, nil
}

func newModel(c Config) (*Model, error) {
	if err := c.check(); err != nil {
		for _, p := range c.Ports {
			if !ci.IsNil(p.Link) {
				_ = p.Link.Close() // the error to report is the first one
			}
		}
		return nil, err
	}
	if c.GUID == 0 {
		c.GUID = ci.GUID(0x0002c9<<40 | 0x03<<32 | countedGUIDs.Add(1)<<8)
	}
	if c.BoardID == "" {
		c.BoardID = DefaultBoardID
	}
	if c.Clock == nil {
		c.Clock = clock.Real()
	}
	m := &Model{cfg: c}
	m.perf = pma.New(pma.Config{Source: perfSource{m}, NumPorts: uint8(len(c.Ports)), Supported: perfCounters})
	m.eqs.reset()
	m.newTables()
	m.config = m.newConfigSpace()
	for i, p := range c.Ports {
		m.ports = append(m.ports, newPort(m, uint8(i+1), p))
	}
	if err := m.startEngine(); err != nil {
		return nil, err
	}
	return m, nil
}

// Close resets the model and releases what it holds. The back end detaches it first. Close is idempotent.
func (m *Model) Close() error {
	m.mu.Lock()
	was := m.closed
	m.closed = true
	m.mu.Unlock()
	if was {
		return nil
	}
	m.Detach()
	return errors.Join(m.stopEngine()...)
}

// Config returns the configuration space.
func (m *Model) Config() *bus.ConfigSpace { return m.config }

// BARs returns the control registers and the doorbells.
func (m *Model) BARs() [bus.NumBARs]bus.BAR { return bars }

var bars = [bus.NumBARs]bus.BAR{
	prm.BARControl:   {Size: prm.ControlSize, Is64: true},
	prm.BARDoorbells: {Size: doorbellBARBytes, Is64: true, Prefetchable: true},
}

// NumVectors returns the number of interrupt vectors.
func (m *Model) NumVectors() int { return numVectors }

// Attach sets the host.
func (m *Model) Attach(h bus.Host) {
	m.host.Store(&attachment{h})
}

// Detach takes the host away and resets the model.
func (m *Model) Detach() {
	m.Reset()
	m.host.Store(nil)
}

// Reset brings the model into its initial state.
func (m *Model) Reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.resetState()
	m.hcr.reset()
	m.ownership.release()
	m.semaphore.release()
	for i := range m.catastrophic {
		m.catastrophic[i].Store(0)
	}
	m.config.Reset()
}

// resetState ends the firmware and everything that it has. m.mu is held.
func (m *Model) resetState() {
	m.closeObjects()
	m.icm.reset()
	m.stage, m.areaPages = stageReset, 0
}

// closeObjects ends the objects of INIT_HCA. m.mu is held.
func (m *Model) closeObjects() {
	for _, p := range m.ports {
		p.setOpen(false)
		p.stats.clear()
		p.filter.clear()
	}
	m.destroyObjects()
	m.eqs.reset()
	m.clearDiag()
	m.specialQPs = 0
	m.nodeDescription, m.deviceConfig = nil, nil
	m.layout = layout{}
}

// readHost copies memory of the host. It reports false if part of it is not mapped.
func (m *Model) readHost(addr uint64, b []byte) bool {
	h := m.host.Load()
	return h != nil && h.Memory().Read(addr, b)
}

// writeHost copies to memory of the host.
func (m *Model) writeHost(addr uint64, b []byte) bool {
	h := m.host.Load()
	return h != nil && h.Memory().Write(addr, b)
}

// accessHost is writeHost or readHost. Without a function value, b stays on the caller's stack.
func (m *Model) accessHost(addr uint64, b []byte, write bool) bool {
	if write {
		return m.writeHost(addr, b)
	}
	return m.readHost(addr, b)
}

// port returns a port, counted from 1, or nil.
func (m *Model) port(n uint8) *port {
	if n == 0 || int(n) > len(m.ports) {
		return nil
	}
	return m.ports[n-1]
}
