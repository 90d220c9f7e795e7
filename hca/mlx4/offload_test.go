package mlx4_test

import (
	"encoding/binary"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ciddk/ci"
)

// Sizes of a datagram of IP over InfiniBand with TCP over IPv4.
const (
	grhArea = 40
	linkLen = 4
	ip4Len  = 20
	tcpLen  = 20
	tcpAt   = linkLen + ip4Len
	headLen = tcpAt + tcpLen
)

// tcpFlags are those of a large send whose segments differ in them.
const (
	tcpFIN, tcpPSH, tcpACK, tcpCWR = 1 << 0, 1 << 3, 1 << 4, 1 << 7
)

// tcpHeader returns the headers of n bytes of payload, without checksums.
func tcpHeader(n int) []byte {
	h := make([]byte, headLen)
	be := binary.BigEndian
	be.PutUint16(h, 0x0800)
	ip, tcp := h[linkLen:], h[tcpAt:]
	ip[0], ip[8], ip[9] = 0x45, 64, 6
	be.PutUint16(ip[2:], uint16(ip4Len+tcpLen+n))
	be.PutUint16(ip[4:], 0xfffe) // wraps
	copy(ip[12:], []byte{10, 0, 0, 1, 10, 0, 0, 2})
	be.PutUint32(tcp[4:], 0xfffffff0)
	tcp[12], tcp[13] = 5<<4, tcpFIN|tcpPSH|tcpACK|tcpCWR
	return h
}

// onesSum is the Internet checksum (RFC 1071): 0xffff over data with a right one.
func onesSum(parts ...[]byte) uint16 {
	var sum uint32
	for _, b := range parts {
		for i, v := range b {
			sum += uint32(v) << (8 * (1 - i&1))
		}
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return uint16(sum)
}

// requireSums checks the checksums of a datagram with TCP over IPv4.
func requireSums(t *testing.T, d []byte) {
	ip := d[linkLen:]
	require.EqualValues(t, 0xffff, onesSum(ip[:ip4Len]), "IP")
	n := len(ip) - ip4Len
	require.EqualValues(t, 0xffff, onesSum(ip[12:20], []byte{0, 6, byte(n >> 8), byte(n)}, ip[ip4Len:]), "TCP")
}

// datagrams is a UD QP that sends to itself.
type datagrams struct {
	*single
	cq  ci.CQ
	qp  ci.QP
	av  ci.AV
	mem []byte
	mr  ci.MR
}

const (
	roomSize  = 2048 // of a receive
	roomCount = 16
)

func newDatagrams(t *testing.T) *datagrams {
	d := &datagrams{single: newSingle(t, true), mem: make([]byte, 2*roomSize*roomCount)}
	a, err := d.c.Query()
	require.NoError(t, err)
	require.True(t, a.Caps.Has(ci.CapLSO|ci.CapIPChecksum))
	d.cq, err = d.pd.CreateCQ(ci.CQCreate{Size: 64})
	require.NoError(t, err)
	d.av, err = d.pd.CreateAV(ci.AVAttr{Port: 1, DLID: a.Ports[0].LID})
	require.NoError(t, err)
	d.mr, err = d.pd.RegisterMR(ci.MRCreate{Memory: ci.Bytes(d.mem), Access: ci.LocalWrite})
	require.NoError(t, err)
	d.qp = d.newQP(t, 3)
	return d
}

// newQP returns a QP whose requests have up to n segments.
func (d *datagrams) newQP(t *testing.T, n int) ci.QP {
	inline := 0
	if n > 1 {
		inline = 256
	}
	q, err := d.pd.CreateQP(ci.QPCreate{Type: ci.UD, SendCQ: d.cq, RecvCQ: d.cq,
		QPCaps: ci.QPCaps{SendDepth: 8, SendSGE: n, RecvDepth: roomCount, RecvSGE: 1, MaxInline: inline}})
	require.NoError(t, err)
	require.NoError(t, q.Modify(ci.ToInit{Port: 1, QKey: 5}.For(ci.UD)))
	require.NoError(t, q.Modify(ci.ToRTR{}.For(ci.UD)))
	require.NoError(t, q.Modify(ci.ToRTS{}.For(ci.UD)))
	return q
}

// recv posts n receives, with IDs from 0.
func (d *datagrams) recv(t *testing.T, n int) {
	for i := range n {
		sge := d.mr.Region().SGE(uint64(i*roomSize), roomSize)
		_, err := d.qp.PostRecv([]ci.RecvWR{{ID: uint64(i), SGL: []ci.SGE{sge}}})
		require.NoError(t, err)
	}
}

// request returns a request with the data at the second half of the memory, in pieces of the lengths.
func (d *datagrams) request(q ci.QP, op ci.SendOp, pieces ...int) ci.SendWR {
	w := ci.SendWR{ID: 99, Op: op, Flags: ci.SendSignaled, To: ci.Dest{AV: d.av, QPN: q.Num(), QKey: 5}}
	at := len(d.mem) / 2
	for _, n := range pieces {
		w.SGL = append(w.SGL, d.mr.Region().SGE(uint64(at), uint32(n)))
		at += n
	}
	return w
}

// poll returns the next n completions.
func (d *datagrams) poll(t *testing.T, n int) (list []ci.WC) {
	var wc [8]ci.WC
	for deadline := time.Now().Add(time.Minute); len(list) < n; runtime.Gosched() {
		k, err := d.cq.Poll(wc[:])
		require.NoError(t, err)
		list = append(list, wc[:k]...)
		require.True(t, time.Now().Before(deadline), "%d of %d completions", len(list), n)
	}
	return list
}

// send posts a request, and returns its completion and those of n receives in order.
func (d *datagrams) send(t *testing.T, w ci.SendWR, n int) (sent ci.WC, got []ci.WC) {
	_, err := d.qp.PostSend([]ci.SendWR{w})
	require.NoError(t, err)
	for _, wc := range d.poll(t, n+1) {
		if wc.Op.IsRecv() {
			require.EqualValues(t, len(got), wc.ID)
			got = append(got, wc)
		} else {
			sent = wc
		}
	}
	require.NoError(t, sent.Err())
	return sent, got
}

func (d *datagrams) close(t *testing.T) {
	d.single.close(t, d.qp, d.av, d.mr, d.cq)
}

// TestLargeSend sends a payload in segments. Each has its own header, with length, numbers, flags and checksums.
func TestLargeSend(t *testing.T) {
	d := newDatagrams(t)
	const mss, n = 1000, 5*1000 + 17
	payload := d.mem[len(d.mem)/2:][:n]
	for i := range payload {
		payload[i] = byte(i * 7)
	}
	d.recv(t, 6)
	w := d.request(d.qp, ci.OpLSO, 1, 2999, n-3000)
	w.Ext = &ci.SendExt{LSO: ci.LSO{Header: tcpHeader(n), MSS: mss}}
	sent, got := d.send(t, w, 6)
	require.Equal(t, ci.WCLSO, sent.Op)
	require.EqualValues(t, n, sent.Length)
	be := binary.BigEndian
	for i, wc := range got {
		want := payload[i*mss : min((i+1)*mss, n)]
		require.EqualValues(t, grhArea+headLen+len(want), wc.Length)
		require.Equal(t, ci.WCChecksumOK, wc.Flags)
		s := d.mem[i*roomSize+grhArea : i*roomSize+int(wc.Length)]
		require.Equal(t, want, s[headLen:])
		require.EqualValues(t, len(s)-linkLen, be.Uint16(s[linkLen+2:]))
		require.Equal(t, 0xfffe+uint16(i), be.Uint16(s[linkLen+4:]))
		require.Equal(t, 0xfffffff0+uint32(i*mss), be.Uint32(s[tcpAt+4:]))
		flags := byte(tcpACK)
		if i == 0 {
			flags |= tcpCWR
		}
		if i == len(got)-1 {
			flags |= tcpFIN | tcpPSH
		}
		require.Equal(t, flags, s[tcpAt+13])
		requireSums(t, s)
	}
	d.close(t)
}

// TestLongHeader sends the longest header of a large send from a QP with the smallest slots, with other requests around
// it.
func TestLongHeader(t *testing.T) {
	d := newDatagrams(t)
	require.NoError(t, d.qp.Destroy())
	d.qp = d.newQP(t, 1)
	copy(d.mem[len(d.mem)/2:], "small")
	h := tcpHeader(8)
	h = append(append(h[:tcpAt:tcpAt], make([]byte, 40)...), h[tcpAt:]...)
	h[linkLen] = 0x4f
	h = append(h, make([]byte, 40)...)
	h[tcpAt+40+12] = 15 << 4
	require.Len(t, h, 124)
	for range 20 {
		d.recv(t, 3)
		large := d.request(d.qp, ci.OpLSO, 8)
		large.Ext = &ci.SendExt{LSO: ci.LSO{Header: h, MSS: 1000}}
		small := d.request(d.qp, ci.OpSend, 5)
		_, err := d.qp.PostSend([]ci.SendWR{small, large, small})
		require.NoError(t, err)
		for _, wc := range d.poll(t, 6) {
			require.NoError(t, wc.Err())
			if wc.Op.IsRecv() && wc.ID == 1 {
				require.EqualValues(t, grhArea+124+8, wc.Length)
			}
		}
		require.Equal(t, "small", string(d.mem[grhArea:][:5]))
		require.Equal(t, "small", string(d.mem[2*roomSize+grhArea:][:5]))
		require.Equal(t, h[tcpAt+40:tcpAt+56], d.mem[roomSize+grhArea:][tcpAt+40:tcpAt+56])
	}
	d.close(t)
}

// TestChecksums has the adapter compute the checksums of datagrams, and check those of received ones.
func TestChecksums(t *testing.T) {
	d := newDatagrams(t)
	const both = ci.SendIPChecksum | ci.SendL4Checksum
	m := d.mem[len(d.mem)/2:][:headLen+31]
	copy(m, tcpHeader(31))
	_, got := func() (ci.WC, []ci.WC) {
		d.recv(t, 1)
		w := d.request(d.qp, ci.OpSend, 10, len(m)-10)
		w.Flags |= both
		return d.send(t, w, 1)
	}()
	require.Equal(t, ci.WCChecksumOK, got[0].Flags)
	right := append([]byte(nil), d.mem[grhArea:int(got[0].Length)]...)
	requireSums(t, right)
	for name, tt := range map[string]struct {
		change func(m []byte)
		flags  ci.SendFlags
		want   ci.WCFlags
	}{
		"right":            {func([]byte) {}, 0, ci.WCChecksumOK},
		"wrong IP":         {func(m []byte) { m[linkLen+10] ^= 1 }, 0, 0},
		"wrong TCP":        {func(m []byte) { m[tcpAt+16] ^= 1 }, 0, 0},
		"data":             {func(m []byte) { m[headLen] ^= 1 }, 0, 0},
		"IP computed":      {func(m []byte) { m[linkLen+10] ^= 1 }, ci.SendIPChecksum, ci.WCChecksumOK},
		"only TCP":         {func(m []byte) { m[linkLen+10] ^= 1 }, ci.SendL4Checksum, 0},
		"TCP computed":     {func(m []byte) { m[tcpAt+16] ^= 1 }, ci.SendL4Checksum, ci.WCChecksumOK},
		"only IP":          {func(m []byte) { m[tcpAt+16] ^= 1 }, ci.SendIPChecksum, 0},
		"UDP":              {func(m []byte) { m[linkLen+9] = 17 }, both, ci.WCChecksumOK},
		"another protocol": {func(m []byte) { m[linkLen+9] = 1 }, both, 0},
		"fragment":         {func(m []byte) { m[linkLen+6] = 0x20 }, both, 0},
		"not IP":           {func(m []byte) { m[1] = 6 }, both, 0},
		"impossible size":  {func(m []byte) { m[linkLen+2] = 0xff }, both, 0},
	} {
		copy(m, right)
		tt.change(m)
		d.recv(t, 1)
		w := d.request(d.qp, ci.OpSend, len(m))
		w.Flags |= tt.flags
		_, got := d.send(t, w, 1)
		require.Equal(t, tt.want, got[0].Flags, name)
		require.EqualValues(t, grhArea+len(m), got[0].Length, name)
	}
	for _, n := range []int{1, 3, 4} { // shorter than any IP header
		d.recv(t, 1)
		w := d.request(d.qp, ci.OpSend, n)
		w.Flags |= both
		_, got := d.send(t, w, 1)
		require.Zero(t, got[0].Flags)
	}
	d.close(t)
}

// TestBadLargeSend posts large sends that are invalid: the driver rejects some, and the adapter others.
func TestBadLargeSend(t *testing.T) {
	d := newDatagrams(t)
	for name, tt := range map[string]struct {
		change func(w *ci.SendWR)
		want   ci.Status
		status ci.WCStatus
	}{
		"no extension":    {func(w *ci.SendWR) { w.Ext = nil }, ci.InvalidParameter, 0},
		"no header":       {func(w *ci.SendWR) { w.Ext.LSO.Header = nil }, ci.InvalidParameter, 0},
		"long header":     {func(w *ci.SendWR) { w.Ext.LSO.Header = make([]byte, 125) }, ci.InvalidParameter, 0},
		"no segment size": {func(w *ci.SendWR) { w.Ext.LSO.MSS = 0 }, ci.InvalidParameter, 0},
		"negative size":   {func(w *ci.SendWR) { w.Ext.LSO.MSS = -1 }, ci.InvalidParameter, 0},
		"large size":      {func(w *ci.SendWR) { w.Ext.LSO.MSS = 1 << 16 }, ci.InvalidParameter, 0},
		"no address":      {func(w *ci.SendWR) { w.To.AV = nil }, ci.InvalidAVHandle, 0},
		"inline":          {func(w *ci.SendWR) { w.SGL, w.Inline = nil, []byte("data") }, ci.InvalidParameter, 0},
		"SGEs":            {func(w *ci.SendWR) { w.SGL = make([]ci.SGE, 99) }, ci.InvalidMaxSGE, 0},
		"not TCP":         {func(w *ci.SendWR) { w.Ext.LSO.Header[linkLen+9] = 17 }, 0, ci.WCLocalOpErr},
		"short header":    {func(w *ci.SendWR) { w.Ext.LSO.Header = make([]byte, 3) }, 0, ci.WCLocalOpErr},
		"small size":      {func(w *ci.SendWR) { w.Ext.LSO.MSS = 1 }, 0, ci.WCLocalOpErr},
		"above the MTU":   {func(w *ci.SendWR) { w.Ext.LSO.MSS = 4096 }, 0, ci.WCLocalLenErr},
		"key":             {func(w *ci.SendWR) { w.SGL[0].LKey ^= 1 }, 0, ci.WCLocalProtErr},
		"range":           {func(w *ci.SendWR) { w.SGL[0].Addr = 1 }, 0, ci.WCLocalProtErr},
	} {
		q := d.newQP(t, 3)
		w := d.request(q, ci.OpLSO, 5000)
		w.Ext = &ci.SendExt{LSO: ci.LSO{Header: tcpHeader(5000), MSS: 1000}}
		tt.change(&w)
		_, err := q.PostSend([]ci.SendWR{w})
		require.Equal(t, tt.want, ci.StatusOf(err), "%s: %v", name, err)
		if err == nil {
			require.Equal(t, tt.status, d.poll(t, 1)[0].Status, name)
		}
		require.NoError(t, q.Destroy())
	}
	w := d.request(d.qp, ci.OpLSO, 5000)
	w.Ext = &ci.SendExt{LSO: ci.LSO{Header: tcpHeader(5000), MSS: 1000}}
	_, err := d.single.qp.PostSend([]ci.SendWR{w})
	require.ErrorIs(t, err, ci.InvalidWRType, "RC")
	d.close(t)
}
