package lnd

import (
	"errors"
	"fmt"
	"time"

	"ciddk/ci"
)

// Errors of transfers.
var (
	ErrRefused = errors.New("lnd: the peer has no place or no data for this")
	ErrTimeout = errors.New("lnd: the transfer took too long")
	ErrStale   = errors.New("lnd: the peer was restarted")
)

// tx is one message that is to be sent, and the work that goes in front of it.
type tx struct {
	class class
	msg   Message
	op    *op         // held until the send is complete; may be nil
	chain []ci.SendWR // registration, WRITEs
}

// op is a transfer at one of its two ends. It ends when nothing holds it any more: no message of it waits or is being sent, and no answer is
// waited for. That is when finish is called, once, whatever happens to the connection; nothing touches the memory afterwards.
type op struct {
	cookie   uint64
	req      *tx    // its first message
	waits    Type   // which answer, 0: none. Immediate: LNet's own ACK or REPLY
	data     []byte // where a REPLY goes, or what is written
	m        *mapping
	deadline time.Duration
	holds    int
	n        int // bytes moved
	err      error
	lost     bool // a message of it failed: teardown knows why
	finish   func()
}

// errno values of Linux, which Status carries.
const (
	enomem   = 12
	enodata  = 61
	emsgsize = 90
)

// failure is what a negative status of a peer means.
func failure(status int32) error {
	switch status {
	case -enodata:
		return ErrRefused
	case -emsgsize:
		return fmt.Errorf("%w: the peer had too many pieces to write", ErrRefused)
	}
	return fmt.Errorf("%w: errno %d", ErrRefused, -status)
}

// writes cuts n bytes of a registered source to RDMA WRITEs, one for each piece at the peer.
func writes(m *mapping, to Descriptor, n uint64) []ci.SendWR {
	var out []ci.SendWR
	from := m.ext.FastReg
	addr := from.IOVA
	for _, f := range to.Frags {
		k := min(uint64(f.Len), n)
		if k == 0 {
			continue
		}
		out = append(out, ci.SendWR{Op: ci.OpWrite, SGL: []ci.SGE{{Addr: addr, Length: uint32(k), LKey: from.Key}},
			Remote: ci.Remote{Addr: f.Addr, RKey: ci.Key(to.Key)}})
		addr += k
		n -= k
	}
	return out
}
