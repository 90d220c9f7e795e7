package cisuite

import (
	"encoding/binary"
	"fmt"

	"ciddk/ci"
	"ciddk/validate"
	"ciddk/validate/kit"
)

// Layout of an IP over InfiniBand datagram (RFC 4391) with TCP over IPv4.
const (
	ipoibLen  = 4 // EtherType and a reserved word
	ipv4Len   = 20
	tcpLen    = 20
	headerLen = ipoibLen + ipv4Len + tcpLen
)

// tcpHeader returns the headers of a datagram with n bytes of payload. Their checksums are 0.
func tcpHeader(n int) []byte {
	h := make([]byte, headerLen)
	binary.BigEndian.PutUint16(h, 0x0800)
	ip := h[ipoibLen:]
	ip[0], ip[8], ip[9] = 0x45, 64, 6 // version and length, TTL, TCP
	binary.BigEndian.PutUint16(ip[2:], uint16(ipv4Len+tcpLen+n))
	copy(ip[12:], []byte{10, 0, 0, 1, 10, 0, 0, 2})
	tcp := ip[ipv4Len:]
	binary.BigEndian.PutUint16(tcp, 5001)
	binary.BigEndian.PutUint16(tcp[2:], 5002)
	binary.BigEndian.PutUint32(tcp[4:], 0x01020304)
	tcp[12], tcp[13] = 5<<4, 0x10 // data offset, ACK
	binary.BigEndian.PutUint16(tcp[14:], 0x2000)
	return h
}

// onesSum adds b to an Internet checksum (RFC 1071).
func onesSum(sum uint32, b []byte) uint32 {
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(b[i])<<8 | uint32(b[i+1])
	}
	if len(b)%2 == 1 {
		sum += uint32(b[len(b)-1]) << 8
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return sum
}

// tcpSum returns the sum over pseudo header and segment, which is 0xffff if the checksum is correct.
func tcpSum(ip []byte) uint32 {
	segment := ip[ipv4Len:]
	sum := onesSum(0, ip[12:20])
	return onesSum(sum, append([]byte{0, 6, byte(len(segment) >> 8), byte(len(segment))}, segment...))
}

// checksumWorks sends datagrams whose checksums are 0 and checks the checksums at the receiver.
func checksumWorks(t *validate.T) {
	p := kit.UD(t)
	for i, n := range kit.Variants(t, "bytes", []int{1, 100, 301}) {
		m := p.A.Buf.Bytes[:headerLen+n]
		copy(m, tcpHeader(n))
		kit.Random(t, m[headerLen:headerLen+n])
		p.B.Recv(p.B.RecvWR(1, 0, grhLen+len(m)))
		w := p.A.SendWR(uint64(i+1), 0, len(m))
		w.Flags |= ci.SendIPChecksum | ci.SendL4Checksum
		p.A.Send(w)
		p.A.CQ.WaitOK(uint64(i + 1))
		wc := p.B.RecvCQ.WaitOK(1)[0]
		where := fmt.Sprintf("datagram with %d bytes of TCP payload", n)
		kit.Equal(t, where+": length", wc.Length, uint32(grhLen+len(m)))
		ip := p.B.Buf.Bytes[grhLen+ipoibLen : grhLen+len(m)]
		kit.Equal(t, where+": checksum over the IP header", onesSum(0, ip[:ipv4Len]), 0xffff)
		kit.Equal(t, where+": checksum over the TCP segment", tcpSum(ip), 0xffff)
		kit.SameBytes(t, where+": payload", ip[ipv4Len+tcpLen:], m[headerLen:])
	}
}

// lsoWorks sends a payload of several segments and expects each after a header of its own.
func lsoWorks(t *validate.T) {
	p := kit.UD(t)
	const mss = 128
	for i, n := range kit.Variants(t, "bytes", []int{mss, 5*mss + 17}) {
		payload := kit.Random(t, p.A.Buf.Bytes[:n])
		pieces := (n + mss - 1) / mss
		const room = 512
		p.B.Recv(p.B.RecvWRs(pieces, room)...)
		w := p.A.SendWR(uint64(i+1), 0, n)
		w.Op, w.Ext = ci.OpLSO, &ci.SendExt{LSO: ci.LSO{Header: tcpHeader(n), MSS: mss}}
		p.A.Send(w)
		kit.Equal(t, "WC.Op of a large send", p.A.CQ.WaitOK(uint64(i + 1))[0].Op, ci.WCLSO)
		for k := range pieces {
			want := payload[k*mss : min((k+1)*mss, n)]
			wc := p.B.RecvCQ.WaitOK(uint64(k + 1))[0]
			where := fmt.Sprintf("segment %d of %d of a large send", k+1, pieces)
			kit.Equal(t, where+": length", wc.Length, uint32(grhLen+headerLen+len(want)))
			m := p.B.Buf.Bytes[k*room+grhLen : k*room+int(wc.Length)]
			kit.SameBytes(t, where+": EtherType", m[:2], []byte{8, 0})
			kit.SameBytes(t, where+": IP addresses", m[ipoibLen+12:ipoibLen+20], []byte{10, 0, 0, 1, 10, 0, 0, 2})
			kit.SameBytes(t, where+": payload", m[headerLen:], want)
		}
	}
	p.A.Exchange(p.B, 20)
}

// The case posts large sends that cannot be sent. The QP works on after each.
var _ = claimsCases.Needing(validate.Needs{Caps: ci.CapLSO | ci.CapUD | ci.CapAV}).Add("claims.refused.lso",
	"large sends that are too long, with an invalid key, or with too long segments", func(t *validate.T) {
		p := kit.UD(t)
		const mss = 128
		big := p.A.CA.Buf(p.A.PD, 200<<10, ci.LocalWrite)
		mtu := p.A.QP.CA.MTU().Bytes()
		for i, x := range kit.Variants(t, "", []struct {
			what string
			n    int
			lso  ci.LSO
			sgl  []ci.SGE
			want []ci.WCStatus
		}{
			{"of more bytes than a large send can have", 200 << 10, ci.LSO{Header: tcpHeader(200), MSS: 1000},
				big.SGL(0, 200<<10), []ci.WCStatus{ci.WCLocalLenErr, ci.WCLocalOpErr}},
			{"with an invalid key", 300, ci.LSO{Header: tcpHeader(300), MSS: mss},
				[]ci.SGE{{Addr: big.Addr, Length: 300, LKey: big.LKey ^ 0x5a5a00}}, []ci.WCStatus{ci.WCLocalProtErr}},
			{"with segments that are longer than the MTU", 2 * mtu, ci.LSO{Header: tcpHeader(2 * mtu), MSS: mtu},
				big.SGL(0, 2*mtu), []ci.WCStatus{ci.WCLocalLenErr, ci.WCLocalOpErr}},
		}) {
			w := p.A.SendWR(uint64(20+i), 0, 1)
			w.Op, w.Ext, w.SGL = ci.OpLSO, &ci.SendExt{LSO: x.lso}, x.sgl
			if n, err := p.A.PostSend([]ci.SendWR{w}); err != nil {
				kit.WantTaken(t, "QP.PostSend of a large send "+x.what, n, err, 0, ci.InvalidParameter)
				continue
			}
			p.A.CQ.WaitStatus(w.ID, x.want...)
			p.A.Becomes(ci.QPSQError)
			kit.OK(t, p.A.Modify(ci.QPFieldState, ci.QPAttr{State: ci.QPRTS}), "QP.Modify from SQError to RTS")
			p.A.Exchange(p.B, 20)
		}
	}, ciClaims04)
