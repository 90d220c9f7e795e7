package udp

import (
	"errors"

	"golang.org/x/sys/unix"

	"ciddk/internal/train"
	"ciddk/link/internal/rocev2"
	"ciddk/rvt"
	"ciddk/wire"
)

// A sendBatch is the storage of one send: messages, the segments that they gather, and the bytes that are generated
// here (headers, ICRCs, copies of small payloads).
type sendBatch struct {
	n     int // messages
	iov   int // pieces
	used  int // bytes of scratch
	tail  int // scratch offset where the last segment ends; -1 if that segment is payload
	hdrs  [sendMessages]mmsghdr
	info  [sendMessages]message
	iovs  [sendPieces]unix.Iovec
	ctls  [sendMessages][3*controlRoom + infoRoom]byte
	bytes []byte
}

// A message is a datagram under construction, or a train of datagrams of equal size.
type message struct {
	at    rocev2.CutPos // route of its first packet
	rt    *rocev2.Route
	iov   int // index of its first segment
	seg   int // bytes of all packets except the last
	total int
	n     int
	full  bool // the last packet was shorter: nothing more can follow
	acks  bool // the first packet is an acknowledgement
}

const (
	sendMessages = 64
	sendPieces   = 1024 // UIO_MAXIOV, the maximum for one message and for a batch
	sendScratch  = 64 << 10
	copyBelow    = 512 // payload that is cheaper to copy than to gather
)

func newSendBatch() *sendBatch { return &sendBatch{bytes: make([]byte, sendScratch)} }

func (s *mmsgSocket) Send(pkts []rvt.Packet) {
	b := s.pool.Get().(*sendBatch)
	c := rocev2.Cutter{Trains: pkts}
	s.sends.RLock()
	if s.closed.Load() {
		c.Bad = train.Count(pkts)
	} else {
		for s.fill(b, &c) {
			s.flush(b, &c)
		}
	}
	s.sends.RUnlock()
	if c.Bad > 0 {
		s.port.Receiver.Count(rvt.DropSendFailed, c.Bad)
	}
	b.forget()
	s.pool.Put(b)
}

// fill adds packets to an empty batch until it is full or none are left. It returns false if there were none.
func (s *mmsgSocket) fill(b *sendBatch, c *rocev2.Cutter) bool {
	b.n, b.iov, b.used = 0, 0, 0
	gso := s.gso.Load()
	for c.Next() {
		if !b.add(c, gso) {
			break
		}
	}
	if b.n == 0 {
		return false
	}
	b.seal()
	return true
}

// add adds the cutter's current packet to the batch and advances. It returns false if the batch is full.
func (b *sendBatch) add(c *rocev2.Cutter, gso bool) bool {
	payload := int(c.Bytes)
	small := payload <= copyBelow
	scratch := c.Size
	pieces := 1
	if !small {
		scratch -= payload
		pieces = 2 + c.Pieces()
	}
	if b.iov+pieces > sendPieces || b.used+scratch > sendScratch {
		// An empty batch has space for any packet whose payload has fewer segments than a batch. Other packets cannot
		// be sent.
		if b.n == 0 {
			c.Bad++
			for left := payload; left > 0; {
				left -= len(c.Piece(left))
			}
			c.Advance()
			return true
		}
		return false
	}
	m := b.train(c, gso)
	if m == nil {
		return false
	}
	id := m.n
	rt := c.Route
	h := b.bytes[b.used : b.used+scratch : b.used+scratch]
	hl := c.Packet.PutHeaders(h)
	crc := rt.ICRC(c.Size, uint16(id))
	if small {
		end := scratch - wire.ICRCLen
		c.CopyPayload(h[hl:])
		clear(h[hl+payload : end])
		crc.Transport(h[:end]).Put(h[end:])
		b.own(scratch)
	} else {
		pad := c.Packet.BTH.Pad
		crc = crc.Headers(h[:hl])
		b.own(hl)
		for left := payload; left > 0; {
			p := c.Piece(left)
			left -= len(p)
			crc = crc.Update(p)
			b.iovs[b.iov] = iovec(p)
			b.iov++
			b.tail = -1
		}
		t := h[hl:]
		clear(t[:pad])
		crc.Pad(pad).Put(t[pad:])
		b.own(int(pad) + wire.ICRCLen)
		c.Advance()
	}
	m.n++
	return true
}

// train returns the message for the cutter's current packet: the last message if the packet can follow in it, or a new
// one.
func (b *sendBatch) train(c *rocev2.Cutter, gso bool) *message {
	if b.n > 0 && gso {
		m := &b.info[b.n-1]
		// An acknowledgement that follows a short message is sent separately, so that the peer can process the message
		// while it is in flight.
		ack := c.Of().Op == wire.OpAcknowledge
		if !m.full && (ack == m.acks || b.n > 1 || m.n > 1) && c.Size <= m.seg && m.n < maxSegments &&
			m.total+c.Size <= maxDatagram && (m.rt == c.Route || m.rt.Key == c.Route.Key) {
			m.full = c.Size < m.seg
			m.total += c.Size
			return m
		}
	}
	if b.n == sendMessages {
		return nil
	}
	m := &b.info[b.n]
	*m = message{at: c.CutPos, rt: c.Route, iov: b.iov, seg: c.Size, total: c.Size,
		acks: c.Of().Op == wire.OpAcknowledge}
	b.n++
	b.tail = -1
	return m
}

// own appends the next n bytes of scratch to the last message, as a segment or as a part of its last segment.
func (b *sendBatch) own(n int) {
	if b.tail == b.used {
		b.iovs[b.iov-1].SetLen(int(b.iovs[b.iov-1].Len) + n)
	} else {
		b.iovs[b.iov] = iovec(b.bytes[b.used : b.used+n])
		b.iov++
	}
	b.used += n
	b.tail = b.used
}

// seal writes the message headers.
func (b *sendBatch) seal() {
	for i := range b.n {
		m := &b.info[i]
		end := b.iov
		if i+1 < b.n {
			end = b.info[i+1].iov
		}
		ctl := b.ctls[i][:0]
		if m.n > 1 {
			k := putControl16(b.ctls[i][:], unix.IPPROTO_UDP, unix.UDP_SEGMENT, uint16(m.seg))
			ctl = b.ctls[i][:k]
		}
		rt := m.rt.System.(*osRoute)
		ctl = append(ctl, rt.ctl[:rt.nctl]...)
		b.hdrs[i].send(rt, b.iovs[m.iov:end], ctl)
	}
}

// sendmmsg sends messages i to j. A short batch, which takes a fraction of a microsecond, is sent without entering the
// scheduler.
func (b *sendBatch) sendmmsg(fd, i, j int) (int, error) {
	raceSent()
	if b.n <= 2 && b.used < 4<<10 && b.iov <= 2 {
		return sendmmsgShort(fd, b.hdrs[i:j])
	}
	return sendmmsg(fd, b.hdrs[i:j])
}

// sameSource returns the end of the longest run of messages, starting with message i, that are sent from one socket.
func (b *sendBatch) sameSource(i int) int {
	j := i + 1
	for j < b.n && b.info[j].rt.Key.Lane == b.info[i].rt.Key.Lane {
		j++
	}
	return j
}

// forget drops the references to payload and routes.
func (b *sendBatch) forget() {
	clear(b.iovs[:b.iov])
	for i := range b.n {
		b.info[i].rt = nil
		b.hdrs[i] = mmsghdr{}
	}
	b.n, b.iov = 0, 0
}

// flush sends a batch. Packets that the system rejects are lost and counted. If it rejects segmentation, packets are
// sent singly from then on.
func (s *mmsgSocket) flush(b *sendBatch, c *rocev2.Cutter) {
	waits := 0
	for i := 0; i < b.n; {
		fd := s.from[b.info[i].rt.Key.Lane]
		if fd == s.gsi {
			s.gsiSent.Store(int64(s.port.Clock.Elapsed()) + 1)
		}
		k, err := b.sendmmsg(fd, i, b.sameSource(i))
		if k > 0 {
			s.port.Stats.SystemCalls.Add(1)
			i += k
			continue
		}
		m := &b.info[i]
		switch {
		case errors.Is(err, unix.EINTR):
		case fd == s.gsi && waits < 3 && s.clearError(err):
			waits++
		case (errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ENOBUFS)) && waits < 3:
			waits++
			s.port.Stats.SendRetries.Add(1)
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, sendWaitMS)
		case (errors.Is(err, unix.EIO) || errors.Is(err, unix.EINVAL)) && m.n > 1:
			// No checksum offload on output, or no segmentation: start again at this message. The packets' IPv4
			// identifications, and so their ICRCs, change.
			s.gso.Store(false)
			c.SetPos(m.at)
			return
		default:
			c.Bad += m.n
			i++
		}
	}
}
