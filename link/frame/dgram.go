package frame

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
)

// dgram carries each frame in a datagram.
type dgram struct {
	c    net.PacketConn
	peer net.Addr
	out  *queue // since a write waits while the other side's queue is full
	done chan struct{}
	once sync.Once
	run  atomic.Bool
}

// Dgram returns a carrier that sends each frame as a datagram from one socket to another, as QEMU does:
//
//	-netdev dgram,id=n0,local.type=unix,local.path=REMOTE,remote.type=unix,remote.path=LOCAL
//
// network is "unixgram" with paths, or "udp" with addresses such as 127.0.0.1:5000. Datagrams from other sockets are
// ignored. Anything that can reach a UDP socket on the machine can forge its sender, so use paths where that matters.
func Dgram(network, local, remote string) (Carrier, error) {
	var c net.PacketConn
	var peer net.Addr
	var err error
	switch network {
	case "unixgram":
		peer = &net.UnixAddr{Name: remote, Net: network}
		c, err = net.ListenUnixgram(network, &net.UnixAddr{Name: local, Net: network})
	case "udp":
		var at *net.UDPAddr
		if peer, err = net.ResolveUDPAddr(network, remote); err == nil {
			at, err = net.ResolveUDPAddr(network, local)
		}
		if err == nil {
			c, err = net.ListenUDP(network, at)
		}
	default:
		return nil, fmt.Errorf("frame: network %q: want unixgram or udp", network)
	}
	if err != nil {
		return nil, fmt.Errorf("frame: %w", err)
	}
	return &dgram{c: c, peer: peer, out: newQueue(), done: make(chan struct{})}, nil
}

func (d *dgram) Start(deliver func([][]byte), failed func(error)) error {
	if !d.run.CompareAndSwap(false, true) {
		return errStarted
	}
	d.out.start(func(frames [][]byte) {
		for _, f := range frames {
			raceSent()
			_, _ = d.c.WriteTo(f, d.peer) // lost if the other side does not listen, as without a cable
		}
	})
	go func() {
		defer close(d.done)
		b := make([]byte, MaxFrame)
		one := make([][]byte, 1)
		peer := d.peer.String()
		for {
			n, from, err := d.c.ReadFrom(b)
			switch {
			case errors.Is(err, net.ErrClosed):
				return
			case err != nil:
				failed(err)
				return
			case from == nil || from.String() != peer:
				continue
			}
			raceReceived()
			one[0] = b[:n]
			deliver(one)
		}
	}()
	return nil
}

var errStarted = errors.New("frame: the carrier was started before")

func (d *dgram) Send(frames [][]byte) (dropped int) { return d.out.put(frames) }

func (d *dgram) Close() (err error) {
	d.once.Do(func() {
		err = d.c.Close()
		d.out.close()
		if d.run.Load() {
			<-d.done
		}
	})
	return err
}
