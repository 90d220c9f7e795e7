package smamutants

import (
	"encoding/binary"
	"slices"
	"sync/atomic"

	"ciddk/ci"
	"ciddk/ci/ciwrap"
	"ciddk/mad"
	"ciddk/validate/mutant"
	"ciddk/validate/mutant/tap"
)

// execute is CA.LocalMAD of the driver that a fault is in.
type execute func(in, out *ci.MAD) error

// All returns the mutants of all areas.
func All() []mutant.Mutant {
	return slices.Concat(basicMutants(), componentMutants(), linkMutants(), stateMutants(),
		perfMutants())
}

func basicMutants() []mutant.Mutant {
	return []mutant.Mutant{
		response("sma.reserved-bytes", "SMA-Answer-01", "responses have a reserved byte set",
			func(_, out *ci.MAD) { out[40] = 1 }),
		response("sma.any-version", "SMA-Answer-02", "requests of unknown versions have status 0",
			clears(mad.StatusBadVersion)),
		response("sma.method-status", "SMA-Answer-03", "unknown methods have the status of unknown attributes",
			func(_, out *ci.MAD) {
				if statusOf(out) == mad.StatusBadMethod {
					setStatus(out, mad.StatusBadMethodAttribute)
				}
			}),
		response("sma.any-attribute", "SMA-Answer-04", "unknown attributes have status 0",
			clears(mad.StatusBadMethodAttribute)),
		response("sma.any-block", "SMA-Answer-05", "a Get of a block beyond a table has status 0",
			func(in, out *ci.MAD) {
				if mad.Method(in[3]) == mad.Get {
					clears(mad.StatusBadField)(in, out)
				}
			}),
		fault("sma.answers-repress", "SMA-Answer-06", "a trap repress is answered", func() hook {
			return func(in, out *ci.MAD, next execute) error {
				err := next(in, out)
				if mad.Method(in[3]) == mad.TrapRepress {
					*out = *in
					out[3] = uint8(mad.GetResp)
				}
				return err
			}
		}),
		master("sma.set-without-key", "SMA-Key-01", "a Set needs no M_Key",
			func(in *ci.MAD) bool { return mad.Method(in[3]) == mad.Set }),
		master("sma.get-without-key", "SMA-Key-02", "a Get of NodeInfo never needs the M_Key",
			func(in *ci.MAD) bool { return mad.Method(in[3]) == mad.Get && attributeOf(in) == mad.AttrNodeInfo }),
		master("sma.key-shown", "SMA-Key-03", "PortInfo shows the M_Key to everyone",
			func(in *ci.MAD) bool { return mad.Method(in[3]) == mad.Get && attributeOf(in) == mad.AttrPortInfo }),
		response("sma.no-violations", "SMA-Key-04", "MKeyViolations is always 0", func(in, out *ci.MAD) {
			if attributeOf(in) == mad.AttrPortInfo {
				out[64+44], out[64+45] = 0, 0
			}
		}),
		fault("sma.partly-applied", "SMA-Set-01", "SubnetTimeout of an invalid Set is applied", partlyApplied),
		fault("sma.mtu-cap-set", "SMA-Set-02", "a Set changes MTUCap", writableMTUCap),
		fault("sma.init-to-active", "SMA-Set-03", "a Set takes a port from Init to Active", jumpsToActive),
		fault("sma.reregister-stays", "SMA-Set-04", "ClientReregister stays set", reregisterStays),
		fault("sma.guids-ignored", "SMA-Set-05", "a Set of GUIDInfo is ignored", ignores(mad.AttrGUIDInfo)),
		fault("sma.pkeys-ignored", "SMA-Set-06", "a Set of P_KeyTable is ignored", ignores(mad.AttrPKeyTable)),
	}
}

// A hook takes the place of CA.LocalMAD; next is the driver's.
type hook func(in, out *ci.MAD, next execute) error

// fault returns a mutant that breaks r. newHook is called for each CA.
func fault(name, breaks, does string, newHook func() hook) mutant.Mutant {
	return mutant.Of(name, breaks, does,
		tap.CAs(func(c ciwrap.CA) ci.CA { return faultyCA{c, newHook()} })).Needing(ci.CapLocalMAD).On("direct")
}

// response returns a mutant that changes responses.
func response(name, breaks, does string, change func(in, out *ci.MAD)) mutant.Mutant {
	return fault(name, breaks, does, func() hook {
		return func(in, out *ci.MAD, next execute) error {
			err := next(in, out)
			if err == nil && *out != (ci.MAD{}) {
				change(in, out)
			}
			return err
		}
	})
}

// faultyCA is a CA with a hook for LocalMAD.
type faultyCA struct {
	ciwrap.CA
	hook hook
}

func (c faultyCA) LocalMAD(port uint8, src *ci.AVAttr, in, out *ci.MAD) error {
	if in == nil || out == nil {
		return c.CA.LocalMAD(port, src, in, out)
	}
	return c.hook(in, out, func(in, out *ci.MAD) error { return c.CA.LocalMAD(port, src, in, out) })
}

func attributeOf(m *ci.MAD) uint16       { return binary.BigEndian.Uint16(m[16:]) }
func statusOf(m *ci.MAD) uint16          { return binary.BigEndian.Uint16(m[4:]) &^ mad.StatusDirection }
func setStatus(m *ci.MAD, status uint16) { binary.BigEndian.PutUint16(m[4:], status) }
func isSetOf(m *ci.MAD, attr uint16) bool {
	return mad.Method(m[3]) == mad.Set && attributeOf(m) == attr
}
func clears(status uint16) func(_, out *ci.MAD) {
	return func(_, out *ci.MAD) {
		if statusOf(out) == status {
			setStatus(out, mad.StatusOK)
		}
	}
}

// master returns a mutant that executes selected requests as if they had the M_Key. It learns the key from the Sets
// that succeed.
func master(name, breaks, does string, selects func(in *ci.MAD) bool) mutant.Mutant {
	return fault(name, breaks, does, func() hook {
		key := &atomic.Uint64{}
		return func(in, out *ci.MAD, next execute) error {
			request := *in
			if selects(in) && key.Load() != 0 {
				binary.BigEndian.PutUint64(request[24:], key.Load())
			}
			err := next(&request, out)
			if isSetOf(in, mad.AttrPortInfo) && out[3] != 0 && statusOf(out) == mad.StatusOK {
				key.Store(binary.BigEndian.Uint64(in[64:]))
			}
			return err
		}
	})
}

func partlyApplied() hook {
	return func(in, out *ci.MAD, next execute) error {
		err := next(in, out)
		if !isSetOf(in, mad.AttrPortInfo) || statusOf(out) != mad.StatusBadField || out[3] == 0 {
			return err
		}
		var get, now ci.MAD
		get = *in
		get[3] = uint8(mad.Get)
		if next(&get, &now) != nil {
			return err
		}
		again := *in
		copy(again[64:128], now[64:128])
		again[64+32] &^= 15 // no change of states
		again[64+33] &= 15
		again[64+51] = in[64+51]
		var ignored ci.MAD
		_ = next(&again, &ignored)
		return err
	}
}

func writableMTUCap() hook {
	value := &atomic.Int32{}
	value.Store(-1)
	return func(in, out *ci.MAD, next execute) error {
		err := next(in, out)
		if attributeOf(in) != mad.AttrPortInfo || out[3] == 0 || statusOf(out) != mad.StatusOK {
			return err
		}
		if mad.Method(in[3]) == mad.Set {
			value.Store(int32(in[64+41] & 15))
		}
		if v := value.Load(); v >= 0 {
			out[64+41] = out[64+41]&^15 | uint8(v)
		}
		return err
	}
}

func jumpsToActive() hook {
	return func(in, out *ci.MAD, next execute) error {
		err := next(in, out)
		if isSetOf(in, mad.AttrPortInfo) && in[64+32]&15 == uint8(ci.PortActive) &&
			statusOf(out) == mad.StatusBadField {
			armed := *in
			armed[64+32] = armed[64+32]&^15 | uint8(ci.PortArmed)
			if err = next(&armed, out); err == nil {
				err = next(in, out)
			}
		}
		return err
	}
}

func reregisterStays() hook {
	set := &atomic.Bool{}
	return func(in, out *ci.MAD, next execute) error {
		err := next(in, out)
		if attributeOf(in) == mad.AttrPortInfo && out[3] != 0 {
			if out[64+51]&0x80 != 0 {
				set.Store(true)
			}
			if set.Load() {
				out[64+51] |= 0x80
			}
		}
		return err
	}
}

// ignores returns a hook that answers a Set of an attribute without executing it.
func ignores(attr uint16) func() hook {
	return func() hook {
		return func(in, out *ci.MAD, next execute) error {
			if !isSetOf(in, attr) || binary.BigEndian.Uint32(in[20:]) != 0 {
				return next(in, out)
			}
			*out = *in
			out[3] = uint8(mad.GetResp)
			return nil
		}
	}
}
