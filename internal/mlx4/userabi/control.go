package userabi

import (
	"encoding/binary"
	"sync/atomic"
)

// ControlSize is the size of the control words of a queue.
const ControlSize = PageSize

// RecordSize is the size of a doorbell record, at the beginning of the control words.
const RecordSize = 8

// Offsets of the words of the driver and of the library. They are on other cache lines than the doorbell record.
const (
	offWord = 64
	offBad  = 128
)

// A Control is the page of control words of a queue: the doorbell record, a word that the driver writes, and one that
// the library writes. The driver's word of a CQ is the number of its completion events. That of a QP is its state. The
// library's word of a CQ reports an entry that no request can have.
type Control struct {
	b         []byte
	word, bad *uint32
}

// OpenControl returns the control words in b, which has at least ControlSize bytes.
func OpenControl(b []byte) Control {
	return Control{b[:ControlSize:ControlSize], word(b, offWord), word(b, offBad)}
}

// Record returns the doorbell record.
func (c Control) Record() []byte { return c.b[:RecordSize:RecordSize] }

// Events returns the number of completion events of a CQ.
func (c Control) Events() uint32 { return atomic.LoadUint32(c.word) }

// SetEvents sets the number of completion events of a CQ.
func (c Control) SetEvents(n uint32) { atomic.StoreUint32(c.word, n) }

// Arm returns the second word of the doorbell record of a CQ, with which the library has armed it: sequence, command
// and index (prm.CQDoorbellCommand).
func (c Control) Arm() uint32 {
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], atomic.LoadUint32(word(c.b, 4)))
	return binary.BigEndian.Uint32(b[:])
}

// isBad marks a word that reports an entry. The other bits are the QP number in it.
const isBad = 1 << 31

// ReportBad reports an entry of a CQ that no request can have. The CQ's doorbell must be rung afterwards.
func (c Control) ReportBad(qpn uint32) { atomic.StoreUint32(c.bad, isBad|qpn&0xffffff) }

// TakeBad returns the QP number of an entry that was reported since the last TakeBad. ok is false if there was none.
func (c Control) TakeBad() (qpn uint32, ok bool) {
	if atomic.LoadUint32(c.bad) == 0 {
		return 0, false
	}
	w := atomic.SwapUint32(c.bad, 0)
	return w & 0xffffff, w&isBad != 0
}

// A State is what the driver has set in a QP. Zero is Reset.
type State struct {
	State      uint8 // ci.QPState
	Port       uint8
	IsEthernet bool
}

// State returns the state of a QP.
func (c Control) State() State {
	w := atomic.LoadUint32(c.word)
	return State{State: uint8(w), Port: uint8(w >> 8), IsEthernet: w>>16&1 != 0}
}

// SetState sets the state of a QP.
func (c Control) SetState(s State) {
	w := uint32(s.State) | uint32(s.Port)<<8
	if s.IsEthernet {
		w |= 1 << 16
	}
	atomic.StoreUint32(c.word, w)
}
