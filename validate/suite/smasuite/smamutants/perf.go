package smamutants

import (
	"encoding/binary"

	"ciddk/ci"
	"ciddk/mad"
	"ciddk/validate/mutant"
)

// Faults in performance management.
func perfMutants() []mutant.Mutant {
	short := meters("sma.perf-16", "SMA-Perf-04", "PortXmitPkts has 16 bits", mad.AttrPortCounters,
		func(out *ci.MAD) { clear(out[smpData+32 : smpData+34]) })
	short.Case = "sma.perf.many"
	return []mutant.Mutant{
		short,
		meters("sma.perf-reserved", "SMA-Perf-01", "responses have a reserved byte set", 0,
			func(out *ci.MAD) { out[30] = 1 }),
		meters("sma.perf-any-attribute", "SMA-Perf-02", "unknown attributes have status 0", 0,
			func(out *ci.MAD) { clears(mad.StatusBadMethodAttribute)(nil, out) }),
		meters("sma.perf-any-port", "SMA-Perf-03", "a port that does not exist has status 0", 0,
			func(out *ci.MAD) { clears(mad.StatusBadField)(nil, out) }),
		meters("sma.perf-bytes", "SMA-Perf-04", "PortXmitData counts bytes", mad.AttrPortCounters,
			func(out *ci.MAD) {
				data := out[smpData+24:]
				binary.BigEndian.PutUint32(data, 4*binary.BigEndian.Uint32(data))
			}),
		fault("sma.perf-clears-all", "SMA-Perf-05", "a Set of PortCounters clears all counters", func() hook {
			return func(in, out *ci.MAD, next execute) error {
				q := *in
				if mad.Class(in[1]) == mad.ClassPerformance && isSetOf(in, mad.AttrPortCounters) {
					q[smpData+2], q[smpData+3] = 0xff, 0xff
				}
				return next(&q, out)
			}
		}),
		meters("sma.perf-extended", "SMA-Perf-06", "the 64-bit counters are 0", mad.AttrPortCountersExtended,
			func(out *ci.MAD) { clear(out[smpData+8 : smpData+72]) }),
		meters("sma.perf-version", "SMA-Perf-07", "ClassPortInfo has base version 2", mad.AttrClassPortInfo,
			func(out *ci.MAD) { out[smpData] = 2 }),
		fault("sma.perf-answers-trap", "SMA-Perf-13", "a trap of performance management is answered", func() hook {
			return func(in, out *ci.MAD, next execute) error {
				err := next(in, out)
				if mad.Class(in[1]) == mad.ClassPerformance && mad.Method(in[3]) == mad.Trap {
					*out = *in
					out[3] = uint8(mad.GetResp)
				}
				return err
			}
		}),
		meters("sma.perf-claims", "SMA-Perf-14", "ClassPortInfo claims PortXmitWait", mad.AttrClassPortInfo,
			func(out *ci.MAD) {
				mask := binary.BigEndian.Uint16(out[smpData+2:])
				binary.BigEndian.PutUint16(out[smpData+2:], mask|mad.PerfCapXmitWait)
			}),
		meters("sma.perf-grh", "SMA-Perf-09", "PortRcvData is one word too low", mad.AttrPortCounters,
			func(out *ci.MAD) {
				data := out[smpData+28:]
				if n := binary.BigEndian.Uint32(data); n > 0 {
					binary.BigEndian.PutUint32(data, n-1)
				}
			}),
		meters("sma.perf-no-errors", "SMA-Perf-08", "PortRcvErrors is 0", mad.AttrPortCounters,
			func(out *ci.MAD) { out[smpData+8], out[smpData+9] = 0, 0 }),
		onlyClears("sma.perf-only-clears", "SMA-Perf-10", mad.AttrPortCounters, 4, mad.PortCountersLen),
		onlyClears("sma.perf-only-clears-extended", "SMA-Perf-11", mad.AttrPortCountersExtended, 8,
			mad.PortCountersExtendedLen),
		ethernet(onlyClears("pma.ethernet-only-clears", "SMA-Eth-01", mad.AttrPortCounters, 4,
			mad.PortCountersLen)),
		ethernet(meters("pma.ethernet-bytes", "SMA-Eth-02", "PortXmitData is 0", mad.AttrPortCounters,
			func(out *ci.MAD) { clear(out[smpData+24 : smpData+28]) })),
		ethernet(response("pma.ethernet-transaction", "SMA-Eth-03", "responses have the transaction ID 0",
			func(_, out *ci.MAD) { clear(out[8:16]) })),
		meters("sma.perf-wraps", "SMA-Perf-12", "PortXmitPkts is 7 instead of its largest value",
			mad.AttrPortCounters, func(out *ci.MAD) {
				if data := out[smpData+32:]; binary.BigEndian.Uint32(data) == 1<<32-1 {
					binary.BigEndian.PutUint32(data, 7)
				}
			}),
	}
}

// onlyClears returns a mutant whose agent writes zeros for the values of a Set, which are in the bytes from first to
// end of the attribute.
func onlyClears(name, breaks string, attr uint16, first, end int) mutant.Mutant {
	what := "a Set of " + mad.AttributeName(mad.ClassPerformance, attr) + " clears the counters"
	return fault(name, breaks, what, func() hook {
		return func(in, out *ci.MAD, next execute) error {
			q := *in
			if mad.Class(in[1]) == mad.ClassPerformance && isSetOf(in, attr) {
				selects := q[smpData+18]
				clear(q[smpData+first : smpData+end])
				if attr == mad.AttrPortCounters {
					q[smpData+18] = selects
				}
			}
			return next(&q, out)
		}
	})
}

// meters returns a mutant that changes responses with an attribute of performance management, or with any if it is 0.
func meters(name, breaks, does string, attr uint16, change func(out *ci.MAD)) mutant.Mutant {
	return response(name, breaks, does, func(in, out *ci.MAD) {
		if mad.Class(in[1]) == mad.ClassPerformance && (attr == 0 || attributeOf(in) == attr) {
			change(out)
		}
	})
}

// ethernet makes a mutant run on a link with Ethernet ports.
func ethernet(m mutant.Mutant) mutant.Mutant {
	m.Link = "network"
	return m
}
