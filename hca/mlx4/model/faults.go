package model

import (
	"sync"

	"ciddk/internal/mlx4/prm"
)

// faults are the injected faults that have not happened yet.
type faults struct {
	mu         sync.Mutex
	failing    map[prm.Opcode]failure
	interrupts map[int]int    // by vector: how many are lost
	events     map[uint32]int // by EQ: how many are lost
}

// failure is what happens to the next commands of an opcode.
type failure struct {
	kind   failureKind
	status prm.Status
	count  int
}

type failureKind uint8

const (
	none failureKind = iota
	fails
	hangs
)

// FailCommand makes the next n commands of an opcode complete with a status without being executed.
func (m *Model) FailCommand(op prm.Opcode, s prm.Status, n int) {
	m.faults.set(op, failure{fails, s, n})
}

// HangCommand makes the next command of an opcode never complete. The command register is busy until a reset.
func (m *Model) HangCommand(op prm.Opcode) { m.faults.set(op, failure{hangs, 0, 1}) }

// LoseInterrupts drops the next n interrupts of a vector.
func (m *Model) LoseInterrupts(vector, n int) {
	m.faults.mu.Lock()
	defer m.faults.mu.Unlock()
	m.faults.interrupts = map[int]int{vector: n}
}

// OverflowEQ makes the next n events of an EQ find it full: they are lost, and the overflow is reported.
func (m *Model) OverflowEQ(eqn uint32, n int) {
	m.faults.mu.Lock()
	defer m.faults.mu.Unlock()
	m.faults.events = map[uint32]int{eqn: n}
}

// SetLink plugs in or pulls out the cable of a port, counted from 1. A port that the driver has closed stays down.
// Errors: those of rvt.HCA.SetLink.
func (m *Model) SetLink(port uint8, up bool) error {
	if p := m.port(port); p != nil {
		return p.setCable(up)
	}
	return m.engine.SetLink(port, up)
}

// FailDevice reports a catastrophic error, by the error buffer and by an event. From then on no command completes, and
// no doorbell of a work queue is executed. The driver resets the adapter, which ends the error.
func (m *Model) FailDevice() {
	const code = 0x1
	m.catastrophic[0].Store(code)
	m.raise(prm.EventLocalCatas, 0, nil)
}

// hasFailed reports whether FailDevice has been called since the last reset.
func (m *Model) hasFailed() bool { return m.catastrophic[0].Load() != 0 }

func (f *faults) set(op prm.Opcode, x failure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failing == nil {
		f.failing = map[prm.Opcode]failure{}
	}
	f.failing[op] = x
}

// command returns what happens to a command.
func (f *faults) command(op prm.Opcode) (prm.Status, failureKind) {
	f.mu.Lock()
	defer f.mu.Unlock()
	x, ok := f.failing[op]
	if !ok || x.count == 0 {
		return prm.OK, none
	}
	x.count--
	f.failing[op] = x
	return x.status, x.kind
}

func (f *faults) losesInterrupt(vector int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return countDown(f.interrupts, vector)
}

func (f *faults) losesEvent(eqn uint32) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return countDown(f.events, eqn)
}

// countDown reports whether a count is left, and takes one.
func countDown[K comparable](m map[K]int, k K) bool {
	if m[k] == 0 {
		return false
	}
	m[k]--
	return true
}
