package mads_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/mads"
	"ciddk/internal/testenv"
	"ciddk/internal/tsharktest"
	"ciddk/link/capture"
	"ciddk/link/capture/pcapng"
	"ciddk/mad"
)

// perfWords is the length of a datagram on each link in units of four bytes: LRH or IP and UDP, BTH, DETH, MAD, ICRC.
var perfWords = map[string]uint32{"direct": 8, "UDP, IPv4": 20 + 8, "virtual, IPv6": 40 + 8}

// A peer reads the performance counters of the reference HCA. The counters count the requests themselves. Wireshark
// decodes the same numbers.
func TestPerformanceManagement(t *testing.T) {
	for wire, head := range perfWords {
		t.Run(wire, func(t *testing.T) {
			words := (head + 12 + 8 + 256 + 4) / 4
			var tap capture.Tap
			p := wires[wire]()
			a, b := newNode(t, nodeConfig{}, testenv.Must(capture.New(p[0], &tap))), newNode(t, nodeConfig{}, p[1])
			file := filepath.Join(t.TempDir(), "perf.pcapng")
			stop, err := pcapng.ToFile(file, &tap)
			require.NoError(t, err)
			client := a.agent(mads.AgentConfig{})
			do := func(method mad.Method, attr uint16, put func([]byte)) mad.Perf {
				t.Helper()
				m := mad.Perf{Header: mad.Header{BaseVersion: 1, Class: mad.ClassPerformance, ClassVersion: 1,
					Method: method, TID: 7, Attribute: attr}}
				if put != nil {
					put(m.Data[:])
				}
				var d [mad.Size]byte
				m.Put(d[:])
				r, err := client.Do(soon(t), &mads.Message{To: b.address(), MAD: d[:], Timeout: 10 * time.Second})
				require.NoError(t, err)
				var out mad.Perf
				require.NoError(t, mad.ParsePerf(r.MAD, &out))
				require.Equal(t, mad.GetResp, out.Method)
				require.Zero(t, out.Status)
				return out
			}
			counters := func(method mad.Method, c mad.PortCounters) (out mad.PortCounters) {
				t.Helper()
				c.PortSelect = 1
				r := do(method, mad.AttrPortCounters, c.Put)
				out.Parse(r.Data[:])
				return out
			}
			var info mad.ClassPortInfo
			r := do(mad.Get, mad.AttrClassPortInfo, nil)
			info.Parse(r.Data[:])
			assert.NotZero(t, info.CapabilityMask&mad.PerfCapExtendedWidthNoIETF)

			first := counters(mad.Get, mad.PortCounters{})
			assert.Equal(t, mad.PortCounters{PortSelect: 1, PortXmitData: words, PortRcvData: 2 * words,
				PortXmitPkts: 1, PortRcvPkts: 2}, first)
			cleared := counters(mad.Set, mad.PortCounters{CounterSelect: mad.SelectRcvPkts | mad.SelectRcvData,
				PortXmitPkts: 77})
			assert.Equal(t, mad.PortCounters{PortSelect: 1, CounterSelect: mad.SelectRcvPkts | mad.SelectRcvData,
				PortXmitData: 2 * words, PortXmitPkts: 2}, cleared)
			last := counters(mad.Get, mad.PortCounters{})
			assert.Equal(t, mad.PortCounters{PortSelect: 1, PortXmitData: 3 * words, PortRcvData: words,
				PortXmitPkts: 3, PortRcvPkts: 1}, last)
			var long mad.PortCountersExtended
			r = do(mad.Get, mad.AttrPortCountersExtended, (&mad.PortCountersExtended{PortSelect: 1}).Put)
			long.Parse(r.Data[:])
			w := uint64(words)
			assert.Equal(t, mad.PortCountersExtended{PortSelect: 1, PortXmitData: 4 * w, PortRcvData: 5 * w,
				PortXmitPkts: 4, PortRcvPkts: 5}, long)
			require.NoError(t, stop())

			if wire == "UDP, IPv4" {
				return // not on the port of RoCEv2, so Wireshark does not decode it
			}
			rows := tsharktest.ReadMatching(t, file, "infiniband.mad.method == 0x81", "infiniband.mad.mgmtclass",
				"infiniband.mad.status", "infiniband.mad.attributeid",
				"infiniband.portcounters.portxmitdata", "infiniband.portcounters.portrcvdata",
				"infiniband.portcounters.portxmitpkts", "infiniband.portcounters.portrcvpkts",
				"infiniband.portcounters_ext.portrcvdata", "infiniband.portcounters_ext.portrcvpkts")
			n := func(v uint32) string { return fmt.Sprint(v) }
			assert.Equal(t, [][]string{
				{"0x04", "0x0000", "0x0001", "", "", "", "", "", ""},
				{"0x04", "0x0000", "0x0012", n(words), n(2 * words), "1", "2", "", ""},
				{"0x04", "0x0000", "0x0012", n(2 * words), "0", "2", "0", "", ""},
				{"0x04", "0x0000", "0x0012", n(3 * words), n(words), "3", "1", "", ""},
				{"0x04", "0x0000", "0x001d", "", "", "", "", n(5 * words), "5"},
			}, rows)
		})
	}
}
