package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"ciddk/examples/lnd/lnd"
)

// A ping of LNet is a GET with this address, which every node answers with what it says of itself.
const (
	pingPortal = 0
	pingMatch  = 1 << 63
)

const (
	pingMagic    = 0x70696e67 // "ping"
	pingFeatures = 1 | 2      // ping itself, and states of NIDs
	pingPID      = 12345
	stateUp      = 0x15aac0de
	pingHeader   = 16
	pingPerNID   = 16
)

// pingInfo is the answer.
type pingInfo struct{ NIDs []lnd.NID }

func (p pingInfo) append(b []byte) []byte {
	o := binary.LittleEndian
	for _, x := range []uint32{pingMagic, pingFeatures, pingPID, uint32(len(p.NIDs))} {
		b = o.AppendUint32(b, x)
	}
	for _, n := range p.NIDs {
		b = o.AppendUint64(b, uint64(n))
		b = o.AppendUint64(b, stateUp)
	}
	return b
}

// parsePing decodes an answer, in the byte order of who sent it.
func parsePing(b []byte) (p pingInfo, err error) {
	bad := errors.New("the answer to a ping makes no sense")
	if len(b) < pingHeader {
		return p, bad
	}
	var o binary.ByteOrder = binary.LittleEndian
	if o.Uint32(b) != pingMagic {
		o = binary.BigEndian
	}
	n := o.Uint32(b[12:])
	if o.Uint32(b) != pingMagic || uint64(len(b)-pingHeader) < pingPerNID*uint64(n) {
		return p, bad
	}
	for b = b[pingHeader:]; n > 0; b, n = b[pingPerNID:], n-1 {
		p.NIDs = append(p.NIDs, lnd.NID(o.Uint64(b)))
	}
	return p, nil
}

// ping asks some times. The first answer takes longer: there is no connection yet.
func ping(ctx context.Context, n *lnd.Node, c pingCmd, out io.Writer) error {
	buf := make([]byte, 512)
	for range c.Count {
		start := time.Now()
		k, err := n.Get(ctx, c.Peer, lnd.Address{Portal: pingPortal, Match: pingMatch}, buf)
		if err != nil {
			return err
		}
		took := time.Since(start)
		info, err := parsePing(buf[:k])
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%v in %v\n", info.NIDs, took.Round(time.Microsecond))
	}
	return nil
}
