package smamutants

import (
	"sync"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/mad"
	"ciddk/validate/mutant"
	"ciddk/validate/mutant/tap"
)

// Faults of a port in Down, Init and Armed.

func stateMutants() []mutant.Mutant {
	return []mutant.Mutant{
		fault("sma.armed-sends", "SMA-State-01", "an armed port sends data", secretly(ci.PortArmed)),
		fault("sma.init-receives", "SMA-State-02", "a port in Init receives data", secretly(ci.PortInit)),
		fault("sma.armed-deaf", "SMA-State-03", "an armed port receives no data", lags),
		fault("sma.stays-armed", "SMA-State-04", "data does not make an armed port active", staysArmed),
		inactive("sma.init-breaks-rc", "SMA-State-05", "a request that is posted in Init breaks the connection",
			func(isActive func() bool) func(ci.HCA) ci.HCA {
				return breaks(ci.RC, isActive)
			}),
		inactive("sma.init-mute", "SMA-State-06", "QP0 sends in Active only",
			func(isActive func() bool) func(ci.HCA) ci.HCA {
				return tap.MADOf(ci.QP0, func([]byte) bool { return isActive() })
			}),
		inactive("sma.init-no-modify", "SMA-State-07", "QP.Modify from RTS to RTS fails unless the port is active",
			func(isActive func() bool) func(ci.HCA) ci.HCA {
				return tap.QP(func(q ci.QP, _ ci.QPCreate) ci.QP { return activeQP{ciwrap.QP{QP: q}, isActive} })
			}),
		inactive("sma.down-breaks-ud", "SMA-State-08", "a datagram that is posted in Down breaks its QP",
			func(isActive func() bool) func(ci.HCA) ci.HCA {
				return breaks(ci.UD, isActive)
			}),
	}
}

// inactive returns a mutant whose fault depends on the state of the first port.
func inactive(name, breaks, does string,
	wrap func(isActive func() bool) func(ci.HCA) ci.HCA) mutant.Mutant {
	return first(name, breaks, does, func(h ci.HCA) ci.HCA {
		var opened atomic.Pointer[ci.CA]
		isActive := func() bool {
			ca := opened.Load()
			if ca == nil {
				return true
			}
			a, err := (*ca).Query()
			return err != nil || a.Ports[0].State == ci.PortActive
		}
		return tap.Both(tap.Layer(ciwrap.Layer{CA: func(c ci.CA) ci.CA { opened.Store(&c); return c }}),
			wrap(isActive))(h)
	})
}

// breaks takes a QP of a type to Error before a request is posted while the port is not active.
func breaks(typ ci.QPType, isActive func() bool) func(ci.HCA) ci.HCA {
	return tap.Post(func(q ci.QP, c ci.QPCreate, wrs []ci.SendWR) (int, error) {
		if c.Type == typ && !isActive() {
			_ = q.Modify(ci.ToError())
		}
		return q.PostSend(wrs)
	})
}

// activeQP is a QP whose attributes can be modified without its state only while the port is active.
type activeQP struct {
	ciwrap.QP
	isActive func() bool
}

func (q activeQP) Modify(set ci.QPField, a ci.QPAttr) error {
	if set&ci.QPFieldState == 0 && !q.isActive() {
		return ci.InvalidState.Err()
	}
	return q.QP.Modify(set, a)
}

// atState is the offset of PortInfo.PortState, in the low nibble, in an SMP.
const atState = smpData + 32

func stateOf(m *ci.MAD) ci.PortState     { return ci.PortState(m[atState] & 15) }
func setState(m *ci.MAD, s ci.PortState) { m[atState] = m[atState]&^15 | uint8(s) }
func isPortInfo(in, out *ci.MAD) bool    { return attributeOf(in) == mad.AttrPortInfo && isAnswered(out) }
func setsState(in *ci.MAD) (ci.PortState, bool) {
	s := stateOf(in)
	return s, isSetOf(in, mad.AttrPortInfo) && s != 0
}

// raise executes a Set that is like the response m and takes the port to a state.
func raise(m *ci.MAD, to ci.PortState, next execute) {
	q, ignored := *m, ci.MAD{}
	q[3] = uint8(mad.Set)
	q[4], q[5] = 0, 0
	q[smpData+33] &= 15 // no change of the physical state
	setState(&q, to)
	_ = next(&q, &ignored)
}

// secretly returns a hook with which a port that shows a state is in the next one.
func secretly(at ci.PortState) func() hook {
	return func() hook {
		var mu sync.Mutex
		isAhead := false
		return func(in, out *ci.MAD, next execute) error {
			mu.Lock()
			defer mu.Unlock()
			q := *in
			if to, sets := setsState(in); sets {
				if isAhead && to == at+1 {
					setState(&q, 0)
				}
				isAhead = false
			}
			err := next(&q, out)
			if !isPortInfo(in, out) {
				return err
			}
			if !isAhead && stateOf(out) == at {
				raise(out, at+1, next)
				isAhead = true
			}
			if isAhead {
				setState(out, at)
			}
			return err
		}
	}
}

// lags is a hook with which a port that shows Armed is in Init.
func lags() hook {
	var mu sync.Mutex
	isBehind := false
	return func(in, out *ci.MAD, next execute) error {
		mu.Lock()
		defer mu.Unlock()
		q := *in
		to, sets := setsState(in)
		if sets && to == ci.PortArmed {
			isBehind = true
			setState(&q, 0)
		} else if sets && isBehind {
			isBehind = false
			raise(in, ci.PortArmed, next)
		}
		err := next(&q, out)
		if isBehind && isPortInfo(in, out) {
			setState(out, ci.PortArmed)
		}
		return err
	}
}

// staysArmed is a hook with which a port shows Armed until a manager changes its state.
func staysArmed() hook {
	var mu sync.Mutex
	isArmed := false
	return func(in, out *ci.MAD, next execute) error {
		mu.Lock()
		defer mu.Unlock()
		if to, sets := setsState(in); sets {
			isArmed = to == ci.PortArmed
		}
		err := next(in, out)
		if isArmed && isPortInfo(in, out) {
			setState(out, ci.PortArmed)
		}
		return err
	}
}
