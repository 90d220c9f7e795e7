package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"golang.org/x/sys/unix"
)

// trains is the fastest yardstick of UDP: a stream of packets like RoCEv2's (12 bytes of header, data up to an MTU, a
// CRC that is computed at one end and checked at the other) in trains that the system splits and joins (UDP_SEGMENT,
// UDP_GRO), several per call.
type trains struct {
	*rawSocket
	role
	segment int // bytes of a packet
	packets int // packets of a train
	bufs    []byte
	hdrs    [trainsAhead]mmsghdr
	iovs    [trainsAhead]unix.Iovec
	ctls    [trainsAhead][24]byte
	word    [64]byte
}

const (
	trainHead    = 12
	trainBytes   = 60 << 10 // maximum data of a train
	trainPackets = 64       // maximum packets of UDP_SEGMENT
	trainWindow  = 17       // trains in flight: a megabyte
	trainsAhead  = 4        // trains per call
	trainLooks   = 100      // empty reads before the receiver sleeps
	joined       = 64 << 10 // maximum size of a receive
)

func newTrains(h *host, r role) (half, error) {
	s, err := openRaw(h.addr)
	if err != nil {
		return nil, err
	}
	body := min(r.Size, h.side.port.MTU.Bytes())
	t := &trains{rawSocket: s, role: r, segment: trainHead + body + crc32.Size,
		packets: min(trainPackets, trainBytes/body)}
	t.bufs = make([]byte, trainsAhead*joined)
	for i := range t.hdrs {
		b := t.bufs[i*joined : (i+1)*joined]
		if r.First {
			t.hdrs[i].point(&t.iovs[i], b[:t.segment*t.packets], &s.to)
			t.hdrs[i].segments(&t.ctls[i], uint16(t.segment))
		} else {
			t.hdrs[i].point(&t.iovs[i], b, nil)
		}
	}
	return t, nil
}

func (t *trains) address() address      { return address{Sock: t.at} }
func (t *trains) join(to address) error { t.connect(to.Sock); return nil }
func (t *trains) end() error            { return nil }

// run moves the bytes of the operations, rounded up to a train.
func (t *trains) run(ops int, _ *watch) error {
	body := (t.segment - trainHead - crc32.Size) * t.packets
	n := (ops*t.Size + body - 1) / body
	if t.First {
		return t.send(n)
	}
	return t.receive(n)
}

// came reads the receiver's reports. The latest one counts.
func (t *trains) came(old int) int {
	for {
		if n, err := recvOne(t.fd, t.word[:]); err != nil || n < 8 {
			return old
		}
		old = max(old, int(binary.LittleEndian.Uint64(t.word[:])))
	}
}

// send keeps at most a window in flight. The receiver reports what has arrived.
func (t *trains) send(n int) error {
	var w waiting
	for sent, come := 0, 0; come < n; {
		k := min(trainsAhead, n-sent, trainWindow-(sent-come))
		if k <= 0 || sent-come > trainWindow/2 {
			now := t.came(come)
			if now == come && k <= 0 {
				if err := w.again(); err != nil {
					return err
				}
			}
			if come = now; k <= 0 {
				continue
			}
		}
		for i := range k {
			for b := t.bufs[i*joined:][:t.segment*t.packets]; len(b) > 0; b = b[t.segment:] {
				end := t.segment - crc32.Size
				binary.LittleEndian.PutUint32(b[end:], crc32.ChecksumIEEE(b[:end]))
			}
		}
		for i := 0; i < k; {
			m, err := mmsg(unix.SYS_SENDMMSG, t.fd, t.hdrs[i:k], true)
			if err != nil && !full(err) {
				return fmt.Errorf("sendmmsg: %w", err)
			}
			i += m
		}
		sent += k
	}
	return nil
}

func (t *trains) say(n int) error {
	binary.LittleEndian.PutUint64(t.word[:], uint64(n))
	return sendOne(t.fd, t.word[:8], &t.to)
}

// receive checks the CRCs. It polls a number of times, then sleeps.
func (t *trains) receive(n int) error {
	empty := 0
	for got := 0; got < n*t.packets; {
		k, err := mmsg(unix.SYS_RECVMMSG, t.fd, t.hdrs[:], false)
		if err != nil {
			if empty++; empty > trainLooks && !t.await() {
				return errors.New("the raw stream stalled: a train was lost")
			}
			continue
		}
		empty = 0
		for i := range k {
			for p := t.bufs[i*joined:][:t.hdrs[i].size]; len(p) >= t.segment; p = p[t.segment:] {
				end := t.segment - crc32.Size
				if binary.LittleEndian.Uint32(p[end:]) != crc32.ChecksumIEEE(p[:end]) {
					return errors.New("the raw stream came damaged")
				}
				got++
			}
		}
		if err := t.say(got / t.packets); err != nil {
			return err
		}
	}
	return nil
}
