package smamutants

import (
	"encoding/binary"
	"sync/atomic"
	"time"

	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate/mutant"
)

// Faults in the components of PortInfo, the tables, and the lease of the M_Key.

// Offsets in PortInfo.
const (
	atWidthEnabled   = 29
	atPhysState      = 33 // high nibble
	atSMSL           = 36 // low nibble
	atLease          = 26 // 2 bytes
	atPKeyViolations = 46 // 2 bytes
	atQKeyViolations = 48 // 2 bytes
	smpData          = 64
)

func componentMutants() []mutant.Mutant {
	return []mutant.Mutant{
		portInfo("sma.sl-ignored", "SMA-Comp-01", "a Set of MasterSMSL is ignored",
			func(set []byte) { set[atSMSL] &^= 15 }, nil),
		portInfo("sma.width-zero", "SMA-Comp-02", "a Set of 0 to LinkWidthEnabled changes it to 0", nil,
			func(set, shown []byte) {
				if set[atWidthEnabled] == 0 {
					shown[atWidthEnabled] = 0
				}
			}),
		portInfo("sma.violations-written", "SMA-Comp-03", "a Set of P_KeyViolations stores its value", nil,
			func(set, shown []byte) { copy(shown[atPKeyViolations:], set[atPKeyViolations:atPKeyViolations+2]) }),
		shows("sma.violations-byte", "SMA-Comp-05", "QKeyViolations stops at 0xff", mad.AttrPortInfo,
			func(data []byte) {
				if data[atQKeyViolations] != 0 {
					data[atQKeyViolations], data[atQKeyViolations+1] = 0, 0xff
				}
			}),
		portInfo("sma.disable-ignored", "SMA-Comp-04", "a port that is disabled trains again", func(set []byte) {
			if set[atPhysState]>>4 == 3 {
				set[atPhysState] = set[atPhysState]&15 | 2<<4
			}
		}, nil),
		portInfo("sma.sleep-ignored", "SMA-Comp-06", "a LinkDownDefaultState of Sleep is ignored",
			func(set []byte) {
				if set[atPhysState]&15 == 1 {
					set[atPhysState] &^= 15
				}
			}, nil),
		portInfo("sma.lease-forever", "SMA-Key-05", "the lease of an M_Key does not end",
			func(set []byte) { set[atLease], set[atLease+1] = 0, 0 }, nil),
		fault("sma.lease-goes-on", "SMA-Key-06", "a lease goes on after its owner has returned", leaseGoesOn),
		fault("sma.repress-unchecked", "SMA-Key-07", "the M_Key of a trap repress is not checked", dropsRepress),
		shows("sma.port-guid", "SMA-Table-01", "PortGUID in NodeInfo is that of the node", mad.AttrNodeInfo,
			func(data []byte) { copy(data[20:28], data[12:20]) }),
		shows("sma.sl-to-vl-half", "SMA-Table-02", "SLtoVLMappingTable has only the lower eight service levels",
			mad.AttrSLtoVL, func(data []byte) { clear(data[4:8]) }),
		fault("sma.one-arbitration", "SMA-Table-03", "both priorities have one VL arbitration table",
			oneArbitration),
		response("sma.dirty-answer", "SMA-Answer-07", "the rest of the GUID table has the data of the request",
			func(in, out *ci.MAD) {
				if attributeOf(in) == mad.AttrGUIDInfo && mad.Method(in[3]) == mad.Get {
					copy(out[smpData+8:smpData+64], in[smpData+8:])
				}
			}),
		response("sma.any-arbitration", "SMA-Table-04", "an unknown block of VLArbitrationTable has status 0",
			func(in, out *ci.MAD) {
				if attributeOf(in) == mad.AttrVLArbitration {
					clears(mad.StatusBadField)(in, out)
				}
			}),
		fault("sma.beyond-table", "SMA-Table-05", "entries beyond the end of the P_Key table are kept",
			beyondTable),
		shows("sma.led-off", "SMA-Table-06", "LedInfo is always off", mad.AttrLEDInfo,
			func(data []byte) { data[0] = 0 }),
		shows("sma.notice-type", "SMA-Table-07", "a Notice without a trap is a fatal one", mad.AttrNotice,
			func(data []byte) { data[0] &= 0x80 }),
		shows("sma.description-end", "SMA-Table-08", "NodeDescription ends with a byte of garbage",
			mad.AttrNodeDescription, func(data []byte) { data[63] = 0xff }),
	}
}

// isAnswered reports whether out is a response without an error.
func isAnswered(out *ci.MAD) bool { return out[3] != 0 && statusOf(out) == mad.StatusOK }

// shows returns a mutant that changes an attribute in responses.
func shows(name, breaks, does string, attr uint16, change func(data []byte)) mutant.Mutant {
	return response(name, breaks, does, func(in, out *ci.MAD) {
		if attributeOf(in) == attr && isAnswered(out) {
			change(out[smpData : smpData+mad.SMPDataLen])
		}
	})
}

// portInfo returns a mutant that changes the PortInfo of a Set before it is executed, and the one that is shown after a
// Set has succeeded. Either function may be nil.
func portInfo(name, breaks, does string, change func(set []byte),
	show func(set, shown []byte)) mutant.Mutant {
	return fault(name, breaks, does, func() hook {
		last := &atomic.Pointer[ci.MAD]{}
		return func(in, out *ci.MAD, next execute) error {
			q := *in
			if change != nil && isSetOf(in, mad.AttrPortInfo) {
				change(q[smpData:])
			}
			err := next(&q, out)
			if show == nil || attributeOf(in) != mad.AttrPortInfo || !isAnswered(out) {
				return err
			}
			if isSetOf(in, mad.AttrPortInfo) {
				last.Store(&q)
			}
			if set := last.Load(); set != nil {
				show(set[smpData:], out[smpData:])
			}
			return err
		}
	})
}

// leaseGoesOn executes Gets without the M_Key once a lease of a second, which began with the first of them, is over.
func leaseGoesOn() hook {
	key, began := &atomic.Uint64{}, &atomic.Pointer[time.Time]{}
	return func(in, out *ci.MAD, next execute) error {
		q := *in
		wrong := mad.Method(in[3]) == mad.Get && key.Load() != 0 && binary.BigEndian.Uint64(in[24:]) != key.Load()
		if wrong {
			if now := time.Now(); !began.CompareAndSwap(nil, &now) && time.Since(*began.Load()) > time.Second {
				binary.BigEndian.PutUint64(q[24:], key.Load())
			}
		}
		err := next(&q, out)
		if isSetOf(in, mad.AttrPortInfo) && isAnswered(out) {
			key.Store(binary.BigEndian.Uint64(in[smpData:]))
		}
		return err
	}
}

func oneArbitration() hook {
	return func(in, out *ci.MAD, next execute) error {
		q := *in
		if block := binary.BigEndian.Uint32(in[20:]) >> 16; attributeOf(in) == mad.AttrVLArbitration && block > 2 {
			binary.BigEndian.PutUint32(q[20:], (block-2)<<16)
		}
		err := next(&q, out)
		if isAnswered(out) {
			copy(out[20:24], in[20:24])
		}
		return err
	}
}

func beyondTable() hook {
	last := &atomic.Pointer[ci.MAD]{}
	return func(in, out *ci.MAD, next execute) error {
		err := next(in, out)
		if attributeOf(in) != mad.AttrPKeyTable || !isAnswered(out) {
			return err
		}
		if isSetOf(in, mad.AttrPKeyTable) {
			q := *in
			last.Store(&q)
		}
		if set := last.Load(); set != nil && [4]byte(set[20:24]) == [4]byte(in[20:24]) {
			copy(out[smpData:], set[smpData:smpData+mad.SMPDataLen])
		}
		return err
	}
}

// dropsRepress drops each TrapRepress.
func dropsRepress() hook {
	return func(in, out *ci.MAD, next execute) error {
		if mad.Method(in[3]) == mad.TrapRepress {
			*out = ci.MAD{}
			return nil
		}
		return next(in, out)
	}
}
