package mads_test

import (
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

// RMPP on the wire, as Wireshark decodes it: a table of subnet administration in three segments, on both kinds of link.
func TestTshark(t *testing.T) {
	for _, wire := range []string{"direct", "virtual, IPv6"} {
		t.Run(wire, func(t *testing.T) {
			var tap capture.Tap
			p := wires[wire]()
			a, b := newNode(t, nodeConfig{}, testenv.Must(capture.New(p[0], &tap))), newNode(t, nodeConfig{}, p[1])
			file := filepath.Join(t.TempDir(), "rmpp.pcapng")
			stop, err := pcapng.ToFile(file, &tap)
			require.NoError(t, err)
			var server mads.Agent
			server = b.agent(mads.AgentConfig{Class: mad.ClassSubnetAdmin, Version: 2,
				Methods: []mad.Method{mad.GetTable}, RMPP: true, OnReceive: func(r *mads.Received) {
					m := make([]byte, 56+500)
					copy(m, r.MAD[:56])
					m[3] = byte(mad.GetTableResp)
					assert.NoError(t, server.Send(&mads.Message{To: r.From, MAD: m}))
				}})
			client := a.agent(mads.AgentConfig{Class: mad.ClassSubnetAdmin, Version: 2, RMPP: true})
			m := request(mad.ClassSubnetAdmin, 2, mad.GetTable, 5)
			m[17] = byte(mad.AttrPathRecord)
			r, err := client.Do(soon(t), &mads.Message{To: b.address(), MAD: m, Timeout: 10 * time.Second})
			require.NoError(t, err)
			require.Len(t, r.MAD, 556)
			require.Eventually(t, func() bool {
				return len(b.m.Held(b.port())) == 0 ||
					b.m.Held(b.port())["transfers out"] == 0
			}, testenv.Patience, time.Millisecond)
			require.NoError(t, stop())

			rows := tsharktest.Read(t, file, "infiniband.mad.mgmtclass", "infiniband.mad.method",
				"infiniband.rmpp.rmpptype", "infiniband.rmpp.rmppflags",
				"infiniband.rmpp.segmentnumber", "infiniband.rmpp.payloadlength", "infiniband.rmpp.newwindowlast")
			// tshark counts a bit of the response time, which is 31, as a fourth flag: 8.
			assert.Equal(t, [][]string{
				{"0x03", "0x12", "0x00", "0x00", "", "", ""}, // the request, which is not sent by RMPP
				{"0x03", "0x92", "0x01", "0x0b", "0x00000001", "0x00000230", ""},
				{"0x03", "0x12", "0x02", "0x09", "0x00000001", "", "0x00000041"},
				{"0x03", "0x92", "0x01", "0x09", "0x00000002", "0x00000000", ""},
				{"0x03", "0x92", "0x01", "0x0d", "0x00000003", "0x00000078", ""},
				{"0x03", "0x12", "0x02", "0x09", "0x00000003", "", "0x00000041"},
			}, rows)
		})
	}
}
