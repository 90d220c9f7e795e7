package lnd

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"ciddk/internal/pcapfile"
	"ciddk/internal/tsharktest"
	"ciddk/wire"
)

// TestTshark checks that tshark decodes the fields of all messages that are SENDs.
func TestTshark(t *testing.T) {
	var frames [][]byte
	var want [][]string
	for _, g := range golden() {
		if g.m.Type == connReq || g.m.Type == connAck {
			continue // in MADs
		}
		m := g.m
		if m.Type == immediate {
			m.payload, m.lnet.Op = nil, lnetAck // tshark 4.0 finds PUTs malformed, those of Lustre, too
		}
		m.lnet.PayloadLen, m.lnet.Words = uint32(len(m.payload)), [4]uint32{2: portal} // not one of Lustre's portals
		b := m.append(nil, plain)
		frames = append(frames, wire.AppendFrame(nil, &wire.Frame{
			Eth: wire.Ethernet{Dst: [6]byte{2, 0, 0, 0, 0, 1}, Src: [6]byte{2, 0, 0, 0, 0, 2},
				EtherType: wire.EtherTypeIPv4},
			IP4:    wire.IPv4{TTL: 64, Src: [4]byte{10, 0, 0, 1}, Dst: [4]byte{10, 0, 0, 2}},
			UDP:    wire.UDP{SrcPort: 0xc000},
			Packet: wire.Packet{BTH: wire.BTH{Opcode: wire.RCSendOnly, PKey: 0xffff, DestQP: 17}, Payload: b}}))
		row := []string{fmt.Sprint(uint8(m.Type)), fmt.Sprint(m.Credits), fmt.Sprint(len(b)), "", "", "", ""}
		for _, p := range layouts[m.Type].parts(&m) {
			switch p := p.(type) {
			case *lnetHeader:
				row[3], row[4] = fmt.Sprint(p.Op), fmt.Sprint(p.Match)
			case *where:
				row[5], row[6] = fmt.Sprint(p.key), fmt.Sprint(len(p.frags))
			}
		}
		want = append(want, row)
	}
	rows := tsharktest.Read(t, tsharktest.Write(t, pcapfile.Ethernet, frames), "lnet.ib.type", "lnet.ib.credits",
		"lnet.ib.nob", "lnet.msg_type", "lnet.msg_dst_match_bits", "lnet.rdma.key", "lnet.rdma.nfrags")
	for _, row := range rows {
		for i, v := range row {
			if n, err := strconv.ParseUint(v, 0, 64); err == nil {
				row[i] = fmt.Sprint(n)
			}
		}
	}
	require.Equal(t, want, rows)
}
