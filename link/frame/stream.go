package frame

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// stream carries frames on a connection.
type stream struct {
	c    net.Conn
	out  *queue // since a write waits while the other side does not read
	done chan struct{}
	once sync.Once
	run  atomic.Bool

	closed atomic.Bool // by Close
}

// sendTime is the longest wait for the other side to read. A stream that waits longer is broken.
const sendTime = 30 * time.Second

// Stream returns a carrier on a connection, with the length of each frame in 4 bytes, big endian, in front of it, as
// QEMU does:
//
//	-netdev stream,id=n0,server=off,addr.type=unix,addr.path=PATH
//
// The carrier owns the connection.
func Stream(c net.Conn) Carrier { return &stream{c: c, out: newQueue(), done: make(chan struct{})} }

func (s *stream) Start(deliver func([][]byte), failed func(error)) error {
	if !s.run.CompareAndSwap(false, true) {
		return errStarted
	}
	s.out.start(s.writer())
	go func() {
		defer close(s.done)
		if err := s.receive(deliver); !s.closed.Load() {
			failed(err)
		}
	}()
	return nil
}

const streamBuffer = 256 << 10

// receive delivers frames until the connection ends. Frames that are in the buffer are delivered together.
func (s *stream) receive(deliver func([][]byte)) error {
	r := bufio.NewReaderSize(s.c, streamBuffer)
	in := new(batch)
	for {
		if err := readFrame(r, in); err != nil {
			return err
		}
		if len(in.bytes) < streamBuffer && hasFrame(r) {
			continue
		}
		raceReceived()
		deliver(in.frames())
		in.reset()
	}
}

// readFrame appends the next frame to b.
func readFrame(r io.Reader, b *batch) error {
	var h [4]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return err
	}
	n := int(binary.BigEndian.Uint32(h[:]))
	if n == 0 || n > MaxFrame {
		return fmt.Errorf("frame: a frame of %d bytes on the stream: want 1 to %d", uint32(n), MaxFrame)
	}
	at := len(b.bytes)
	b.bytes = append(b.bytes, make([]byte, n)...)
	if _, err := io.ReadFull(r, b.bytes[at:]); err != nil {
		return err
	}
	b.end()
	return nil
}

// hasFrame reports whether the buffer has a whole frame.
func hasFrame(r *bufio.Reader) bool {
	if r.Buffered() < 4 {
		return false
	}
	h, err := r.Peek(4)
	return err == nil && uint64(r.Buffered()) >= 4+uint64(binary.BigEndian.Uint32(h))
}

func (s *stream) Send(frames [][]byte) (dropped int) { return s.out.put(frames) }

// writer returns a function that writes frames. After an error it closes the connection, which the receiver reports.
func (s *stream) writer() func(frames [][]byte) {
	var b []byte
	return func(frames [][]byte) {
		b = b[:0]
		for _, f := range frames {
			b = binary.BigEndian.AppendUint32(b, uint32(len(f)))
			b = append(b, f...)
		}
		raceSent()
		err := s.c.SetWriteDeadline(time.Now().Add(sendTime))
		if err == nil {
			_, err = s.c.Write(b)
		}
		if err != nil {
			s.c.Close()
		}
	}
}

func (s *stream) Close() (err error) {
	s.once.Do(func() {
		s.closed.Store(true)
		err = s.c.Close()
		s.out.close()
		if s.run.Load() {
			<-s.done
		}
	})
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
