package cm_test

import (
	"context"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"ciddk/accesslayer/cm"
	"ciddk/ci"
	"ciddk/mad"
	"ciddk/wire"
)

// everyMessage makes two managers send all kinds of messages, and gives what went over the wire.
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
		_, err := p.a.m.Connect(t.Context(), p.a.ask(p.b))
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
		c, err := p.a.m.Connect(t.Context(), p.a.ask(p.b, func(c *cm.ConnectConfig) { c.Alternate = &alt }))
		require.NoError(t, err)
		require.NoError(t, c.Confirm([]byte("rtu")))
		_, err = c.LoadAlternate(t.Context(), cm.AlternateConfig{Path: p.a.path(3, p.b, 3), Private: []byte("lap")})
		require.NoError(t, err)
		_, err = c.Disconnect(t.Context(), []byte("dreq"))
		require.NoError(t, err)
		require.NoError(t, <-done)
		require.NoError(t, l.Close())
		_, err = p.a.m.Lookup(t.Context(), cm.LookupConfig{Service: service1, Path: p.a.path(1, p.b, 1), Private: []byte("sidr")})
		require.Error(t, err)
	})
	return sent
}

// TestTshark: another implementation reads all messages that a manager sends, and finds none malformed. (tshark 4.0 misreads flow label and rate
// of a REQ, and knows no bodies of MRA, LAP, APR and SIDR.)
func TestTshark(t *testing.T) {
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("tshark is not installed: no second opinion on the datagrams")
	}
	sent := everyMessage(t)
	kinds := map[uint16]bool{}
	le := binary.LittleEndian
	pcap := le.AppendUint32(nil, 0xa1b2c3d4)
	pcap = le.AppendUint32(pcap, 2|4<<16) // version 2.4
	pcap = append(pcap, make([]byte, 8)...)
	pcap = le.AppendUint32(pcap, 65535)
	pcap = le.AppendUint32(pcap, 1) // Ethernet
	for _, b := range sent {
		kinds[header(b).Attribute] = true
		f := wire.Frame{Eth: wire.Ethernet{Dst: [6]byte{2, 0, 0, 0, 0, 1}, Src: [6]byte{2, 0, 0, 0, 0, 2}, EtherType: wire.EtherTypeIPv4},
			IP4: wire.IPv4{TTL: 64, Src: [4]byte{10, 0, 0, 1}, Dst: [4]byte{10, 0, 0, 2}}, UDP: wire.UDP{SrcPort: 0xc000},
			Packet: wire.Packet{BTH: wire.BTH{Opcode: wire.UDSendOnly, PKey: 0xffff, DestQP: 1}, DETH: wire.DETH{QKey: mad.QKeyGSI, SrcQP: 1}, Payload: b}}
		p := wire.AppendFrame(nil, &f)
		pcap = append(pcap, make([]byte, 8)...)
		pcap = le.AppendUint32(pcap, uint32(len(p)))
		pcap = append(le.AppendUint32(pcap, uint32(len(p))), p...)
	}
	require.Len(t, kinds, 11, "all messages")
	name := filepath.Join(t.TempDir(), "cm.pcap")
	require.NoError(t, os.WriteFile(name, pcap, 0o600))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fields := []string{"_ws.malformed", "infiniband.mad.attributeid", "infiniband.cm.req", "infiniband.cm.req.serviceid", "infiniband.cm.rep.remotecommid", "infiniband.cm.rtu.remotecommid"}
	args := []string{"-r", name, "-T", "fields", "-E", "separator=|", "-E", "occurrence=f"}
	for _, f := range fields {
		args = append(args, "-e", f)
	}
	cmd := exec.CommandContext(ctx, tshark, args...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	out, err := cmd.Output()
	require.NoError(t, err)
	rows := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.Len(t, rows, len(sent))
	number := func(s string) uint64 {
		n, err := strconv.ParseUint(s, 0, 64)
		assert.NoError(t, err, s)
		return n
	}
	for i, line := range rows {
		row := strings.Split(line, "|")
		require.Len(t, row, len(fields))
		_, m, err := mad.ParseCM(sent[i])
		require.NoError(t, err)
		assert.Empty(t, row[0], "malformed: %s", mad.AttributeName(mad.ClassCM, m.Attribute()))
		assert.Equal(t, uint64(m.Attribute()), number(row[1]))
		switch m := m.(type) {
		case *mad.REQ:
			assert.Equal(t, uint64(m.LocalCommID), number(row[2]))
			assert.Equal(t, uint64(m.ServiceID), number(row[3]))
		case *mad.REP:
			assert.Equal(t, uint64(m.RemoteCommID), number(row[4]))
		case *mad.RTU:
			assert.Equal(t, uint64(m.RemoteCommID), number(row[5]))
		}
		assert.NoError(t, m.Check(), "nothing reserved is sent")
	}
}
