package cm_test

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/internal/pcapfile"
	"ciddk/internal/tsharktest"
	"ciddk/mad"
	"ciddk/wire"
)

// everyMessage makes two managers send all kinds of messages, and returns the datagrams.
func everyMessage(t *testing.T) (sent [][]byte) {
	inPairOn(t, ci.LinkEthernet, 3, cm.Config{}, func(t *testing.T, p *pair) {
		var mu sync.Mutex
		p.net.tap = func(d *datagram) {
			mu.Lock()
			defer mu.Unlock()
			sent = append(sent, d.mad)
		}
		alt := p.a.path(2, p.b, 2)
		var rej *cm.RejectError
		_, err := p.a.m.Connect(t.Context(), p.a.requestTo(p.b))
		require.ErrorAs(t, err, &rej)
		l := p.b.listen()
		done := make(chan error, 1)
		go func() {
			c, err := l.Accept(t.Context())
			if err == nil {
				_ = c.Delay(20, []byte("mra"))
				pass(time.Second)
				if err = c.Accept(t.Context(), reply()); err == nil {
					next(t, c, cm.EventEstablished)
					next(t, c, cm.EventAlternate)
					err = c.AnswerAlternate(mad.APRLoaded, []byte("info"), []byte("apr"))
					next(t, c, cm.EventDisconnect)
					_ = c.AnswerDisconnect([]byte("drep"))
				}
			}
			done <- err
		}()
		c, err := p.a.m.Connect(t.Context(), p.a.requestTo(p.b, func(c *cm.ConnectConfig) { c.Alternate = &alt }))
		require.NoError(t, err)
		require.NoError(t, c.Confirm([]byte("rtu")))
		_, err = c.LoadAlternate(t.Context(), cm.AlternateConfig{Path: p.a.path(3, p.b, 3), Private: []byte("lap")})
		require.NoError(t, err)
		_, err = c.Disconnect(t.Context(), []byte("dreq"))
		require.NoError(t, err)
		require.NoError(t, <-done)
		require.NoError(t, l.Close())
		_, err = p.a.m.Lookup(t.Context(), cm.LookupConfig{Service: service1, Path: p.a.path(1, p.b, 1),
			Private: []byte("sidr")})
		require.Error(t, err)
	})
	return sent
}

// TestTshark checks that tshark decodes all messages of a manager and finds none malformed. tshark 4.0 misreads the
// flow label and rate of a REQ, and does not decode MRA, LAP, APR and SIDR.
func TestTshark(t *testing.T) {
	kinds := map[uint16]bool{}
	var frames [][]byte
	sent := everyMessage(t)
	for _, b := range sent {
		kinds[header(b).Attribute] = true
		frames = append(frames, wire.AppendFrame(nil, &wire.Frame{
			Eth: wire.Ethernet{Dst: [6]byte{2, 0, 0, 0, 0, 1}, Src: [6]byte{2, 0, 0, 0, 0, 2},
				EtherType: wire.EtherTypeIPv4},
			IP4: wire.IPv4{TTL: 64, Src: [4]byte{10, 0, 0, 1},
				Dst: [4]byte{10, 0, 0, 2}}, UDP: wire.UDP{SrcPort: 0xc000},
			Packet: wire.Packet{BTH: wire.BTH{Opcode: wire.UDSendOnly, PKey: 0xffff, DestQP: 1},
				DETH: wire.DETH{QKey: mad.QKeyGSI, SrcQP: 1}, Payload: b}}))
	}
	require.Len(t, kinds, 11, "all messages")
	rows := tsharktest.Read(t, tsharktest.Write(t, pcapfile.Ethernet, frames), "infiniband.mad.attributeid",
		"infiniband.cm.req",
		"infiniband.cm.req.serviceid", "infiniband.cm.rep.remotecommid", "infiniband.cm.rtu.remotecommid")
	require.Len(t, rows, len(sent))
	number := func(s string) uint64 {
		n, err := strconv.ParseUint(s, 0, 64)
		assert.NoError(t, err, s)
		return n
	}
	for i, row := range rows {
		_, m, err := mad.ParseCM(sent[i])
		require.NoError(t, err)
		assert.Equal(t, uint64(m.Attribute()), number(row[0]))
		switch m := m.(type) {
		case *mad.REQ:
			assert.Equal(t, uint64(m.LocalCommID), number(row[1]))
			assert.Equal(t, uint64(m.ServiceID), number(row[2]))
		case *mad.REP:
			assert.Equal(t, uint64(m.RemoteCommID), number(row[3]))
		case *mad.RTU:
			assert.Equal(t, uint64(m.RemoteCommID), number(row[4]))
		}
		assert.NoError(t, m.Check(), "reserved fields are 0")
	}
}
