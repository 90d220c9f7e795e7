package reference

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"net/netip"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Yardsticks: what the machine does without us, by the plainest means. Benchmarks run them beside what they measure and print the
// ratio.

// rawUDP is a bare socket.
type rawUDP struct {
	s  *mmsgSocket // for open only
	fd int
	at netip.AddrPort
	to osRoute
}

func newRawUDP(t testing.TB) *rawUDP {
	at := netip.AddrPortFrom(testAddr(), 4791)
	s := &mmsgSocket{port: &udpPort{addr: at.Addr()}}
	fd, err := s.open(at, false)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Close(fd)) })
	return &rawUDP{s: s, fd: fd, at: at}
}

func (r *rawUDP) connect(to *rawUDP) {
	r.to = compileOS(&udpRoute{dst: to.at, key: routeKey{hop: defaultHops}}, 0)
}

// rawStream moves trains of 15 packets of 4096 bytes with their CRCs from one socket to the other: the sender computes the CRCs and
// keeps at most window bytes on the way, the receiver checks them. Call send and receive on goroutines or processes of their own; credit
// tells the sender how many bytes have come.
type rawStream struct {
	from, to *rawUDP
	credit   atomic.Int64
}

const (
	rawSegment  = 12 + 4096 + 4
	rawPackets  = 15
	rawTrain    = rawSegment * rawPackets
	rawPayload  = 4096 * rawPackets
	rawWindow   = 1 << 20
	rawMessages = 4
)

func (r *rawStream) send(t testing.TB, trains int) {
	bufs := make([]byte, rawMessages*rawTrain)
	var hdrs [rawMessages]mmsghdr
	var ctls [rawMessages][controlRoom]byte
	var iovs [rawMessages]unix.Iovec
	for i := range hdrs {
		n := putControl16(ctls[i][:], unix.IPPROTO_UDP, unix.UDP_SEGMENT, rawSegment)
		iovs[i] = iovec(bufs[i*rawTrain : (i+1)*rawTrain])
		hdrs[i].send(&r.from.to, iovs[i:i+1], ctls[i][:n])
	}
	for sent := 0; sent < trains; {
		room := (rawWindow - (int64(sent)*rawPayload - r.credit.Load())) / rawPayload
		n := min(rawMessages, trains-sent, int(room))
		if n <= 0 {
			runtime.Gosched()
			continue
		}
		for b := bufs[:n*rawTrain]; len(b) > 0; b = b[rawSegment:] {
			binary.LittleEndian.PutUint32(b[rawSegment-4:], crc32.ChecksumIEEE(b[:rawSegment-4]))
		}
		for i := 0; i < n; {
			k, err := sendmmsg(r.from.fd, hdrs[i:n])
			require.NoError(t, err)
			i += k
		}
		sent += n
	}
}

func (r *rawStream) receive(t testing.TB, trains int) {
	b := newRecvBatch(&udpPort{})
	for got := int64(0); got < int64(trains)*rawPayload; {
		for i := range rawMessages {
			b.hdrs[i].reset(b.ctls[i][:])
		}
		n, err := recvmmsg(r.to.fd, b.hdrs[:rawMessages])
		if errors.Is(err, unix.EAGAIN) {
			fds := []unix.PollFd{{Fd: int32(r.to.fd), Events: unix.POLLIN}}
			if k, _ := unix.Poll(fds, 2000); k == 0 {
				require.FailNow(t, "the raw stream stalled")
			}
			continue
		}
		require.NoError(t, err)
		for i := range n {
			for p := b.bufs[i*recvBytes : i*recvBytes+int(b.hdrs[i].size)]; len(p) >= rawSegment; p = p[rawSegment:] {
				if binary.LittleEndian.Uint32(p[rawSegment-4:]) != crc32.ChecksumIEEE(p[:rawSegment-4]) {
					require.FailNow(t, "CRC")
				}
				got += 4096
			}
		}
		r.credit.Store(got)
	}
}

// rawPing bounces a datagram of n bytes between two spinning sockets; one call is one side.
func rawPing(t testing.TB, me *rawUDP, n, rounds int, first bool) {
	b := newRecvBatch(&udpPort{})
	iov := iovec(make([]byte, n))
	var h [1]mmsghdr
	out := []unix.Iovec{iov}
	h[0].send(&me.to, out, nil)
	if first {
		_, err := sendmmsg(me.fd, h[:])
		require.NoError(t, err)
	}
	for i := range rounds {
		for {
			b.hdrs[0].reset(b.ctls[0][:])
			if k, _ := recvmmsg(me.fd, b.hdrs[:1]); k == 1 {
				break
			}
		}
		if i+1 == rounds && first {
			break
		}
		if _, err := sendmmsg(me.fd, h[:]); err != nil {
			require.NoError(t, err)
		}
	}
}

// rawOneByOne sends n datagrams of size bytes, one per call, to a socket that is read at the other end likewise, and returns how many
// arrived.
func rawOneByOne(t testing.TB, from, to *rawUDP, n, size int) int {
	var received atomic.Int64
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 2048)
		for {
			k, _, err := unix.Recvfrom(to.fd, buf, unix.MSG_DONTWAIT)
			if err == nil && k > 0 {
				received.Add(1)
				continue
			}
			select {
			case <-stop:
				return
			default:
				runtime.Gosched()
			}
		}
	}()
	msg := make([]byte, size)
	sa := &unix.SockaddrInet4{Port: int(to.at.Port()), Addr: to.at.Addr().As4()}
	for i := range n {
		for int64(i)-received.Load() > 1000 {
			runtime.Gosched()
		}
		require.NoError(t, unix.Sendto(from.fd, msg, 0, sa))
	}
	for received.Load() < int64(n) {
		runtime.Gosched()
	}
	close(stop)
	<-done
	return int(received.Load())
}
