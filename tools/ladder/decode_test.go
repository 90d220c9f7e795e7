package ladder_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/clock"
	"ciddk/link/sim"
	"ciddk/mad"
	"ciddk/tools/ladder"
	"ciddk/wire"
)

// ip returns a packet with its IP and UDP headers.
func ip(p *wire.Packet) []byte {
	f := wire.Frame{Eth: wire.Ethernet{EtherType: wire.EtherTypeIPv4},
		IP4: wire.IPv4{TTL: 64, Protocol: wire.ProtocolUDP,
			Src: [4]byte{10, 0, 1, 1}, Dst: [4]byte{10, 0, 1, 2}},
		UDP: wire.UDP{SrcPort: 0xc000, DstPort: wire.RoCEv2Port}, Packet: *p}
	return wire.AppendIP(nil, &f)
}

// mgmt returns a packet with a message between managers.
func mgmt(m mad.CMMessage) []byte {
	b := make([]byte, mad.Size)
	h := mad.CMHeader(1, m)
	h.Put(b)
	m.Put(b[mad.HeaderLen:])
	return ip(&wire.Packet{BTH: wire.BTH{Opcode: wire.UDSendOnly, DestQP: 1},
		DETH:    wire.DETH{QKey: mad.QKeyGSI, SrcQP: 1},
		Payload: b})
}

func TestDecode(t *testing.T) {
	rej := &mad.REJ{Message: mad.WhichOther, Reason: mad.RejTimeout}
	require.NoError(t, rej.SetAdditionalInfo([]byte("who")))
	req := &mad.REQ{ServiceID: 0x1234, LocalQPN: 0x11, StartingPSN: 0x22, RemoteTimeout: 18,
		Alternate: mad.CMPath{LocalLID: 0xffff}}
	at := func(last byte) [16]byte { return wire.GIDFromIPv4([4]byte{10, 0, 2, last}) }
	for name, x := range map[string]struct {
		packet []byte
		want   ladder.Text
	}{
		"REQ": {mgmt(req), ladder.Text{Name: "REQ", Fields: "service 0x1234, QPN 0x11",
			More: []string{"starting PSN 0x000022", "answer within 1.07 s", "alternate path"}}},
		"REP": {mgmt(&mad.REP{LocalQPN: 0x33, StartingPSN: 0x44}),
			ladder.Text{Name: "REP", Fields: "QPN 0x33, starting PSN 0x000044"}},
		"RTU": {mgmt(&mad.RTU{}), ladder.Text{Name: "RTU"}},
		"MRA": {mgmt(&mad.MRA{Message: mad.WhichLAP, ServiceTimeout: 3}),
			ladder.Text{Name: "MRA", Fields: "of LAP, wait for 33 us"}},
		"REJ": {mgmt(rej), ladder.Text{Name: "REJ", Fields: "of no message, reason 4, timeout",
			More: []string{`information "who"`}}},
		"REJ, consumer": {mgmt(&mad.REJ{Message: mad.WhichREP, Reason: mad.RejConsumer,
			PrivateData: [mad.REJPrivateLen]byte{'n', 'o'}}),
			ladder.Text{Name: "REJ", Fields: "of REP, reason 28, consumer reject",
				More: []string{`private data "no"`}}},
		"DREQ": {mgmt(&mad.DREQ{RemoteQPN: 0x55}), ladder.Text{Name: "DREQ", Fields: "of QPN 0x55"}},
		"DREP": {mgmt(&mad.DREP{}), ladder.Text{Name: "DREP"}},
		"LAP": {mgmt(&mad.LAP{RemoteQPN: 0x66, Alternate: mad.CMPath{LocalGID: at(1), RemoteGID: at(2)}}),
			ladder.Text{Name: "LAP", Fields: "of QPN 0x66, alternate path", More: []string{"10.0.2.1 to 10.0.2.2"}}},
		"APR": {mgmt(&mad.APR{Status: mad.APRRejected}),
			ladder.Text{Name: "APR", Fields: "status 3, path rejected"}},
		"SIDR_REQ": {mgmt(&mad.SIDRREQ{ServiceID: 0x77}), ladder.Text{Name: "SIDR_REQ", Fields: "service 0x77"}},
		"SIDR_REP": {mgmt(&mad.SIDRREP{QPN: 0x88, QKey: 0x99}),
			ladder.Text{Name: "SIDR_REP", Fields: "status 0, QPN and Q_Key valid",
				More: []string{"QPN 0x88", "Q_Key 0x99"}}},
		"SIDR_REP, none": {mgmt(&mad.SIDRREP{Status: mad.SIDRNoQP}),
			ladder.Text{Name: "SIDR_REP", Fields: "status 3, no QP available"}},
		"SEND": {ip(&wire.Packet{BTH: wire.BTH{Opcode: wire.RCSendOnly, PSN: 0xabc}, Payload: []byte("text")}),
			ladder.Text{Name: "SEND", Fields: "PSN 0x000abc", More: []string{`"text"`}}},
		"datagram": {ip(&wire.Packet{BTH: wire.BTH{Opcode: wire.UDSendOnly, DestQP: 2},
			DETH:    wire.DETH{QKey: 3, SrcQP: 4},
			Payload: []byte("text")}),
			ladder.Text{Name: "SEND", Fields: "to QPN 0x2, Q_Key 0x3, from QPN 0x4", More: []string{`"text"`}}},
		"ACK": {ip(&wire.Packet{BTH: wire.BTH{Opcode: wire.RCAcknowledge, PSN: 1},
			AETH: wire.AETH{Syndrome: wire.ACK(5)}}),
			ladder.Text{Name: "ACK", Fields: "PSN 0x000001"}},
		"NAK": {ip(&wire.Packet{BTH: wire.BTH{Opcode: wire.RCAcknowledge, PSN: 2},
			AETH: wire.AETH{Syndrome: wire.NAKPSNSequence}}),
			ladder.Text{Name: wire.NAKPSNSequence.String(), Fields: "PSN 0x000002"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, err := ladder.Decode(x.packet)
			require.NoError(t, err)
			assert.Equal(t, x.want, got)
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	for name, b := range map[string][]byte{"nothing": nil, "cut": mgmt(&mad.RTU{})[:60],
		"no message": ip(&wire.Packet{BTH: wire.BTH{Opcode: wire.UDSendOnly, DestQP: 1},
			Payload: make([]byte, mad.Size)})} {
		_, _, err := ladder.Decode(b)
		assert.Error(t, err, name)
	}
}

func TestRecorder(t *testing.T) {
	a, b := netip.MustParseAddr("10.0.1.1"), netip.MustParseAddr("10.0.1.2")
	c := clock.NewVirtual(0)
	recorder := func() *ladder.Recorder {
		return ladder.NewRecorder(c, "title", [2]string{"a", "b"}, [2][]netip.Addr{{a}, {b}})
	}
	sent := &sim.Datagram{From: b, To: a, Data: mgmt(&mad.RTU{})}

	r := recorder()
	r.Watch(sent)
	r.Note(ladder.Left, ladder.Call, "before the start")
	r.Start()
	r.Watch(&sim.Datagram{From: b, To: a, Arrived: true, Data: sent.Data})
	got, err := r.Stop()
	require.NoError(t, err, "what had left before the start may arrive")
	assert.Equal(t, &ladder.Chart{Title: "title", Ends: [2]string{"a", "b"}, Messages: got.Messages, Notes: got.Notes},
		got)
	assert.Empty(t, got.Messages)
	assert.Empty(t, got.Notes)
	assert.Equal(t, []string{"title", "a", "b", "ms"}, read(t, ladder.SVG(got)).texts[1:],
		"of nothing, too, there is a picture")

	r = recorder()
	r.Start()
	r.Watch(sent)
	_, err = r.Stop()
	assert.ErrorContains(t, err, "from 10.0.1.2 to 10.0.1.1 have not arrived")

	r = recorder()
	r.Start()
	r.Watch(&sim.Datagram{From: a, To: b, Data: []byte("?")})
	_, err = r.Stop()
	assert.Error(t, err, "not a packet")
}
